// Sequences in named arrays: HDF5 and npz files.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "orthornn/core/error.hpp"
#include "tasks/sequences/array_file.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

constexpr std::array<const char*, 5> known_names = {"inputs", "symbols", "lengths", "targets", "groups"};

/// The arrays of a file, by their names.
class Arrays {
 public:
  explicit Arrays(const std::filesystem::path& file)
      : path_(file),
        numbers_(std::make_shared<NumberFile>(file)),
        file_(ArrayFile::open(file, {known_names.begin(), known_names.end()})) {
    for (const char* name : known_names) {
      if (auto found = file_->find(name)) arrays_.emplace(name, *found);
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw FileError(fmt::format("{}: {}", path_.string(), why));
  }
  const ArrayFile::Array* find(const std::string& name) const {
    const auto found = arrays_.find(name);
    return found == arrays_.end() ? nullptr : &found->second;
  }
  /// The numbers of an array as float, in another shape of as many.
  StoredNumbers<float> floats(const char* name, const Shape& shape) const {
    if (const auto place = is_large(shape) ? file_->place_of_floats(name) : std::nullopt)
      return in_place<float>(*place, shape);
    NumberCollector<float> collector(shape, path_);
    if (arrays_.at(name).is_integer) {
      read_converted<float>(
          name, [](std::int64_t x, Index) { return static_cast<float>(x); }, collector);
    } else {
      file_->read(name, [&](std::span<const float> piece) { collector.add(piece); });
    }
    return std::move(collector).finish();
  }
  /// Whole numbers, [count], from `low` on. Those that stay in the file are not looked at yet.
  StoredNumbers<std::int32_t> whole(const char* name, std::int64_t low) const {
    const Shape shape = {arrays_.at(name).shape.count()};
    if (!arrays_.at(name).is_integer)
      fail(fmt::format("'{}' has floating-point numbers; expected whole ones", name));
    if (const auto place = is_large(shape) ? file_->place_of_int32(name) : std::nullopt)
      return in_place<std::int32_t>(*place, shape);
    NumberCollector<std::int32_t> collector(shape, path_);
    const auto checked = [&](std::int64_t x, Index i) {
      if (x < low || x > std::numeric_limits<std::int32_t>::max())
        fail(fmt::format("entry {} of '{}' is {}; expected a whole number from {} to 2^31 - 1", i, name, x,
                         low));
      return static_cast<std::int32_t>(x);
    };
    read_converted<std::int32_t>(name, checked, collector);
    return std::move(collector).finish();
  }

 private:
  static bool is_large(const Shape& shape) {
    return static_cast<Index>(shape.bytes(sizeof(float))) > most_bytes_in_memory;
  }
  /// Numbers that stay in the file. Another file may have come to its path before their place was found.
  template <class T>
  StoredNumbers<T> in_place(std::uint64_t place, const Shape& shape) const {
    numbers_->check_is(path_);
    return {numbers_, place, shape};
  }
  /// Reads integers, and collects convert(x, number of x).
  template <class T, class Convert>
  void read_converted(const char* name, const Convert& convert, NumberCollector<T>& collector) const {
    std::vector<T> converted;
    Index count = 0;
    file_->read(name, [&](std::span<const std::int64_t> piece) {
      converted.clear();
      for (const std::int64_t x : piece) converted.push_back(convert(x, count++));
      collector.add(converted);
    });
  }

  std::filesystem::path path_;
  /// Open before any number is looked for, so that a place is never taken for one in another file.
  std::shared_ptr<const NumberFile> numbers_;
  std::unique_ptr<ArrayFile> file_;
  std::map<std::string, ArrayFile::Array> arrays_;
};

std::vector<std::int32_t> in_memory(const StoredNumbers<std::int32_t>& numbers) {
  Tensor<std::int32_t> room;
  const std::span<const std::int32_t> all = numbers.read(0, numbers.size(), room);
  return {all.begin(), all.end()};
}

/// Reads inputs or symbols, and lengths. Returns the shape of the steps: [N, T], or [S] with lengths.
Shape read_inputs(const Arrays& arrays, SequenceFile& to) {
  const ArrayFile::Array *inputs = arrays.find("inputs"), *symbols = arrays.find("symbols"),
                         *lengths = arrays.find("lengths");
  if ((inputs == nullptr) == (symbols == nullptr))
    arrays.fail(
        fmt::format("expected an array 'inputs' or an array 'symbols', and one of them; it may have {}",
                    fmt::join(known_names, ", ")));
  const Shape& shape = inputs != nullptr ? inputs->shape : symbols->shape;
  const int rank = lengths != nullptr ? 1 : 2;
  const bool has_columns = inputs != nullptr && shape.rank() == rank + 1;
  if (shape.rank() != rank && !has_columns) {
    arrays.fail(fmt::format("'{}' has shape {}; expected {}", inputs != nullptr ? "inputs" : "symbols",
                            to_string(shape),
                            rank == 2 ? "[sequences, steps] and columns if there are several"
                                      : "[all steps] with 'lengths', and columns if there are several"));
  }
  if (shape.count() == 0) {
    arrays.fail(fmt::format("'{}' has shape {}; expected at least one number",
                            inputs != nullptr ? "inputs" : "symbols", to_string(shape)));
  }
  Shape steps;
  for (int i = 0; i < rank; ++i) steps.append(shape[i]);
  if (lengths == nullptr && (shape[1] < 1 || shape[1] > std::numeric_limits<std::int32_t>::max()))
    arrays.fail(fmt::format("its sequences have {} steps; expected 1 to 2^31 - 1", shape[1]));
  // The steps first: what an archive claims to have is not there until it was read.
  if (inputs != nullptr) {
    to.features = arrays.floats("inputs", {steps.count(), has_columns ? shape[rank] : 1});
  } else {
    to.symbols = arrays.whole("symbols", 0);
  }
  if (lengths != nullptr) {
    to.lengths = in_memory(arrays.whole("lengths", 1));
  } else {
    to.lengths.assign(static_cast<std::size_t>(shape[0]), static_cast<std::int32_t>(shape[1]));
  }
  Index all = 0;
  for (const std::int32_t length : to.lengths) all += length;
  if (all != steps.count() || all == 0)
    arrays.fail(fmt::format("the lengths are {} steps in all, and there are {}; expected as many, and some",
                            all, steps.count()));
  return steps;
}

void read_targets(const Arrays& arrays, const SequencesOptions& options, const Shape& steps,
                  SequenceFile& to) {
  const ArrayFile::Array* targets = arrays.find("targets");
  if (options.goal == Goal::forecast) return;
  if (targets == nullptr)
    arrays.fail("it has no array 'targets'; expected one, or --goal forecast, which needs none");
  const Index count = std::ssize(to.lengths);
  const Goal goal = options.goal;
  const auto begins_with = [&](const Shape& shape) {
    bool begins = targets->shape.rank() >= shape.rank();
    for (int i = 0; begins && i < shape.rank(); ++i) begins = targets->shape[i] == shape[i];
    return begins;
  };
  const bool fits_steps = begins_with(steps), fits_sequences = begins_with({count});
  to.every_step = goal == Goal::step_classes || goal == Goal::step_values ||
                  (goal == Goal::automatic && fits_steps && !(steps.rank() == 1 && fits_sequences));
  const bool has_classes =
      goal == Goal::classes || goal == Goal::step_classes || (goal == Goal::automatic && targets->is_integer);
  const Index rows = to.every_step ? steps.count() : count;
  const int rank = to.every_step ? steps.rank() : 1;
  if (!(to.every_step ? fits_steps : fits_sequences) ||
      targets->shape.rank() > rank + (has_classes ? 0 : 1)) {
    arrays.fail(fmt::format("'targets' has shape {}; expected {}{} for --goal {}", to_string(targets->shape),
                            to_string(to.every_step ? steps : Shape{count}),
                            has_classes ? "" : " and columns if there are several", name_of(goal)));
  }
  if (has_classes) {
    to.classes = arrays.whole("targets", std::numeric_limits<std::int32_t>::min());
  } else {
    to.values = arrays.floats("targets", {rows, targets->shape.rank() > rank ? targets->shape[rank] : 1});
  }
}

}  // namespace

SequenceFile read_arrays(const SequencesOptions& options, Wanted what) {
  const Arrays arrays(options.data);
  SequenceFile result;
  const Shape steps = read_inputs(arrays, result);
  if (what == Wanted::inputs) return result;
  read_targets(arrays, options, steps, result);
  if (arrays.find("groups") != nullptr) {
    result.groups = in_memory(arrays.whole("groups", std::numeric_limits<std::int32_t>::min()));
    if (result.groups.size() != result.lengths.size())
      arrays.fail(fmt::format("'groups' has {} entries; expected one for each of {} sequences",
                              result.groups.size(), result.lengths.size()));
  }
  return result;
}

}  // namespace orthornn
