// Sequences in named arrays: HDF5 and npz files.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "orthornn/core/error.hpp"
#include "orthornn/io/hdf5.hpp"
#include "tasks/sequences/npz_file.hpp"
#include "tasks/sequences/sequence_file.hpp"

namespace orthornn {
namespace {

constexpr std::array<const char*, 5> known_names = {"inputs", "symbols", "lengths", "targets", "groups"};

/// The arrays of a file, by their names.
class Arrays {
 public:
  explicit Arrays(const std::filesystem::path& file) : file_(file.string()) {
    if (file.extension() == ".npz") {
      arrays_ = read_npz(file);
    } else {
      const Hdf5Reader reader(file);
      for (const char* name : known_names) {
        if (!reader.has(name)) continue;
        NumpyArray& array = arrays_[name];
        array.shape = reader.shape(name);
        array.is_integer = reader.is_integer(name);
        if (array.is_integer) {
          array.integers = reader.read<std::int64_t>(name);
        } else {
          array.reals = reader.read<double>(name);
        }
      }
    }
  }

  [[noreturn]] void fail(const std::string& why) const { throw FileError(fmt::format("{}: {}", file_, why)); }
  const NumpyArray* find(const std::string& name) const {
    const auto found = arrays_.find(name);
    return found == arrays_.end() ? nullptr : &found->second;
  }
  /// As float, [rows, columns], where the rows are all but the last size.
  Tensor<float> floats(const NumpyArray& array, const Shape& shape) const {
    Tensor<float> result;
    result.reserve(shape);
    for (Index i = 0; i < result.size(); ++i) {
      result.data()[i] = array.is_integer ? static_cast<float>(array.integers.data()[i])
                                          : static_cast<float>(array.reals.data()[i]);
    }
    return result;
  }
  /// As whole numbers from `low` on.
  std::vector<std::int32_t> whole(const char* name, const NumpyArray& array, std::int64_t low) const {
    if (!array.is_integer) fail(fmt::format("'{}' has floating-point numbers; expected whole ones", name));
    std::vector<std::int32_t> result;
    for (Index i = 0; i < array.integers.size(); ++i) {
      const std::int64_t x = array.integers.data()[i];
      if (x < low || x > std::numeric_limits<std::int32_t>::max())
        fail(fmt::format("entry {} of '{}' is {}; expected a whole number from {} to 2^31 - 1", i, name, x,
                         low));
      result.push_back(static_cast<std::int32_t>(x));
    }
    return result;
  }

 private:
  std::string file_;
  std::map<std::string, NumpyArray> arrays_;
};

Tensor<std::int32_t> tensor_of(const std::vector<std::int32_t>& numbers) {
  Tensor<std::int32_t> result(Shape{std::ssize(numbers)});
  std::ranges::copy(numbers, result.begin());
  return result;
}

/// Reads inputs or symbols, and lengths. Returns the shape of the steps: [N, T], or [S] with lengths.
Shape read_inputs(const Arrays& arrays, SequenceFile& to) {
  const NumpyArray *inputs = arrays.find("inputs"), *symbols = arrays.find("symbols"),
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
  Shape steps;
  for (int i = 0; i < rank; ++i) steps.append(shape[i]);
  if (lengths != nullptr) {
    to.lengths = arrays.whole("lengths", *lengths, 1);
  } else {
    if (shape[1] < 1 || shape[1] > std::numeric_limits<std::int32_t>::max())
      arrays.fail(fmt::format("its sequences have {} steps; expected 1 to 2^31 - 1", shape[1]));
    to.lengths.assign(static_cast<std::size_t>(shape[0]), static_cast<std::int32_t>(shape[1]));
  }
  Index all = 0;
  for (const std::int32_t length : to.lengths) all += length;
  if (all != steps.count() || all == 0)
    arrays.fail(fmt::format("the lengths are {} steps in all, and there are {}; expected as many, and some",
                            all, steps.count()));
  if (inputs != nullptr) {
    to.features = arrays.floats(*inputs, {all, has_columns ? shape[rank] : 1});
  } else {
    to.symbols = tensor_of(arrays.whole("symbols", *symbols, 0));
  }
  return steps;
}

void read_targets(const Arrays& arrays, const SequencesOptions& options, const Shape& steps,
                  SequenceFile& to) {
  const NumpyArray* targets = arrays.find("targets");
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
    to.classes = tensor_of(arrays.whole("targets", *targets, -1));
    std::int32_t most = 0;
    for (const std::int32_t c : to.classes) most = std::max(most, c);
    for (std::int32_t c = 0; c <= most && most < 100000; ++c) to.class_names.push_back(std::to_string(c));
  } else {
    to.values = arrays.floats(*targets, {rows, targets->shape.rank() > rank ? targets->shape[rank] : 1});
  }
}

}  // namespace

SequenceFile read_arrays(const SequencesOptions& options) {
  const Arrays arrays(options.data);
  SequenceFile result;
  const Shape steps = read_inputs(arrays, result);
  read_targets(arrays, options, steps, result);
  if (const NumpyArray* groups = arrays.find("groups")) {
    result.groups = arrays.whole("groups", *groups, std::numeric_limits<std::int32_t>::min());
    if (result.groups.size() != result.lengths.size())
      arrays.fail(fmt::format("'groups' has {} entries; expected one for each of {} sequences",
                              result.groups.size(), result.lengths.size()));
  }
  return result;
}

}  // namespace orthornn
