#include "tasks/sequences/loaded_sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "io/crc32_of.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "tasks/batches.hpp"

namespace orthornn {
namespace {

using Numbers = std::vector<std::int32_t>;

/// The first `rows` sizes of a shape, or all where there are fewer.
Shape rows_of(const Shape& shape, int rows) {
  Shape result;
  for (int i = 0; i < std::min(rows, shape.rank()); ++i) result.append(shape[i]);
  return result;
}

ColumnMaps maps_of(const std::vector<ColumnSums>& columns, Normalization normalization) {
  ColumnMaps maps;
  for (const ColumnSums& column : columns) {
    double shift = 0, divisor = 1;
    if (normalization == Normalization::standard) {
      shift = column.mean;
      divisor = column.deviation();
    } else if (normalization == Normalization::range && column.count > 0) {
      shift = column.low;
      divisor = column.high - column.low;
    }
    maps.shift.push_back(static_cast<float>(shift));
    // A constant column stays constant.
    maps.divisor.push_back(static_cast<float>(divisor) > 0 ? static_cast<float>(divisor) : 1.0F);
  }
  return maps;
}

/// Throws where float, whose significand has 24 bits, has rounded the differences of large numbers away:
/// times since 1970, for example. `what` is a column of it.
void check_differences(const char* what, const std::vector<ColumnSums>& columns) {
  // Smaller whole numbers are exact.
  constexpr float all_exact = 0x1p24F;
  constexpr float fewest_steps = 64;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const ColumnSums& column = columns[k];
    const float largest = std::abs(column.low) > std::abs(column.high) ? column.low : column.high;
    const float size = std::abs(largest);
    const float step = std::nextafter(size, std::numeric_limits<float>::infinity()) - size;
    if (column.count == 0 || size < all_exact || column.high - column.low >= fewest_steps * step) continue;
    refuse_sequences(fmt::format(
        "{} {} has numbers near {:.9g}, of which float32 keeps multiples of {:.9g} alone, so that their "
        "differences are lost; take a constant off this column (let times begin at 0), or leave it out",
        what, k, largest, step));
  }
}

SequenceSizes sizes_of(const StoredNumbers<float>& features, const StoredNumbers<std::int32_t>& symbols,
                       ConstTensorView<std::int32_t> lengths) {
  if (features.empty() == symbols.empty())
    refuse_sequences("expected either features or symbols, and at least one step of them");
  return SequenceSizes(features.empty() ? symbols.shape() : features.shape(), !features.empty(), lengths);
}

}  // namespace

void refuse_sequences(const std::string& why) { throw ValueError("own sequences: " + why); }

SequenceError::SequenceError(Index number, const std::string& reason)
    : ValueError(fmt::format("own sequences: sequence {}: {}", number, reason)),
      sequence(number),
      why(reason) {}

SequenceSizes::SequenceSizes(const Shape& inputs, bool has_features, ConstTensorView<std::int32_t> lengths) {
  const int rank = lengths.empty() ? 2 : 1;
  if (inputs.rank() != rank + (has_features ? 1 : 0)) {
    throw ShapeError(fmt::format("{} have shape {}; expected {}", has_features ? "features" : "symbols",
                                 to_string(inputs),
                                 has_features ? (rank == 2 ? "[N, T, K]" : "[S, K] with lengths")
                                              : (rank == 2 ? "[N, T]" : "[S] with lengths")));
  }
  steps = rows_of(inputs, rank);
  if (lengths.empty()) {
    for (Index i = 0; i < steps[0]; ++i) starts.push_back((i + 1) * steps[1]);
    return;
  }
  if (lengths.shape().rank() != 1) check_shape("lengths", lengths.shape(), {0});
  for (Index i = 0; i < lengths.size(); ++i) {
    if (lengths(i) < 1)
      throw SequenceError(i, fmt::format("its length is {}; expected 1 or more", lengths(i)));
    starts.push_back(starts.back() + lengths(i));
  }
  if (starts.back() != steps[0]) {
    throw ShapeError(fmt::format("the lengths are {} steps in all, and there are {}; expected as many",
                                 starts.back(), steps[0]));
  }
}

DataTask::Data::Data(Content given, const DataTaskOptions& given_options)
    : content(std::move(given)),
      options(given_options),
      sizes(sizes_of(content.features, content.symbols, content.lengths)) {
  if (sizes.count() > std::numeric_limits<std::int32_t>::max())
    refuse_sequences(fmt::format("{} sequences; expected less than 2^31", sizes.count()));
  check_targets();
  split();
  for (Index i = 0; i < sizes.count(); ++i) {
    longest = std::max(longest, steps(i));
    shortest = std::min(shortest, steps(i));
  }
  if (options.cut > 0) {
    check_streams();
    longest = shortest = options.cut;
  }
  check_batch_size("sequences", longest, options.batch);
  if (options.cut == 0) prepare_batches();
}

void DataTask::Data::check_targets() const {
  const bool has_classes = !content.classes.empty();
  if (options.ahead > 0) {
    if (has_classes || !content.values.empty())
      refuse_sequences("targets were given, and `ahead` makes targets of the inputs");
    for (Index i = 0; i < sizes.count(); ++i) {
      if (sizes.length(i) <= options.ahead) {
        throw SequenceError(
            i, fmt::format("it has {} steps; expected more than the {} steps ahead of its target",
                           sizes.length(i), options.ahead));
      }
    }
  } else {
    if (has_classes == !content.values.empty())
      refuse_sequences("expected either classes or values, and at least one of them");
    const Shape expected = content.every_step ? sizes.steps : Shape{sizes.count()};
    const Shape& found = has_classes ? content.classes.shape() : content.values.shape();
    const Shape rows = rows_of(found, expected.rank());
    if (!(rows == expected) || found.rank() != expected.rank() + (has_classes ? 0 : 1)) {
      throw ShapeError(fmt::format("{} have shape {}; expected {} for a target at each {}",
                                   has_classes ? "classes" : "values", to_string(found),
                                   to_string(expected) + (has_classes ? "" : " and the number of columns"),
                                   content.every_step ? "step" : "sequence"));
    }
  }
  if (has_values() && (options.balanced || !content.class_weights.empty()))
    refuse_sequences("class weights were given, and targets are numbers; expected targets that are classes");
  if (options.balanced && !content.class_weights.empty())
    refuse_sequences("class weights were given, and they are to be balanced; expected one of the two");
  for (const float weight : content.class_weights) {
    if (!(weight > 0 && std::isfinite(weight)))
      refuse_sequences(fmt::format("a class has the weight {}; expected a number above 0", weight));
  }
  if (!content.symbol_bytes.empty())
    check_shape("symbol_bytes", content.symbol_bytes.shape(), {content.symbol_count});
  if (!content.groups.empty()) check_shape("groups", content.groups.shape(), {sizes.count()});
  if (content.validation < 0 || content.test < 0 || content.validation + content.test >= sizes.count()) {
    refuse_sequences(fmt::format(
        "{} of {} sequences are for validation and {} for test; expected at least one to train on",
        content.validation, sizes.count(), content.test));
  }
}

std::vector<std::int32_t> drawn_parts(Index count, ConstTensorView<std::int32_t> groups,
                                      const DataTaskOptions& options, bool draws_validation,
                                      bool draws_test) {
  std::map<std::int32_t, Numbers> members;  // by group, in the order of their numbers
  for (Index i = 0; i < count; ++i) {
    const auto number = static_cast<std::int32_t>(i);
    members[groups.empty() ? number : groups(i)].push_back(number);
  }
  const auto all = std::ssize(members);
  const auto held_out = [&](bool draws, double share) {
    return draws ? std::max<Index>(1, std::llround(share * static_cast<double>(all))) : 0;
  };
  const Index for_validation = held_out(draws_validation, options.validation_part),
              for_test = held_out(draws_test, options.test_part);
  if (for_validation + for_test >= all) {
    refuse_sequences(
        fmt::format("there are {} {}; expected {} for validation, {} for test and at least one to train on{}",
                    all, groups.empty() ? "sequences" : "groups", for_validation, for_test,
                    count == 1 ? ": one long sequence is divided by --length" : ""));
  }
  const Tensor<std::int32_t> drawn =
      random_permutation(all, RandomStream(options.seed, RandomPurpose::split));
  std::vector<const Numbers*> ordered;
  for (const auto& [group, of_group] : members) ordered.push_back(&of_group);
  Numbers parts(static_cast<std::size_t>(count), 0);
  for (Index i = 0; i < for_validation + for_test; ++i) {
    for (const std::int32_t sequence : *ordered[static_cast<std::size_t>(drawn(i))])
      parts[static_cast<std::size_t>(sequence)] = i < for_validation ? 1 : 2;
  }
  return parts;
}

void DataTask::Data::split() {
  const Index first_test = sizes.count() - content.test, first_validation = first_test - content.validation;
  const ConstTensorView<std::int32_t> groups =
      content.groups.empty() ? content.groups : content.groups.slice(0, first_validation);
  Numbers parts = drawn_parts(first_validation, groups, options, content.validation == 0, content.test == 0);
  parts.resize(static_cast<std::size_t>(first_test), 1);
  parts.resize(static_cast<std::size_t>(sizes.count()), 2);
  for (Index i = 0; i < sizes.count(); ++i) {
    const std::int32_t part = parts[static_cast<std::size_t>(i)];
    (part == 0 ? training : part == 1 ? validation : test).push_back(static_cast<std::int32_t>(i));
  }
}

void DataTask::Data::check_streams() const {
  if (!every_step())
    refuse_sequences("targets of whole sequences; pieces of a long sequence need a target at each step");
  for (const Numbers* part : {&training, &validation, &test}) {
    if (part->size() != 1) {
      refuse_sequences(
          fmt::format("{} sequences in a part; expected one long sequence in each, which is cut "
                      "into pieces",
                      part->size()));
    }
  }
  const Index all = steps(training.front()), needed = options.batch * options.cut;
  if (options.cut <= all / options.batch) return;
  refuse_sequences(
      fmt::format("the sequence has {} steps to train on, and a batch of {} pieces of {} steps needs {}; "
                  "expected a longer sequence, or a smaller --batch or --length",
                  all, options.batch, options.cut, needed));
}

Streams DataTask::Data::streams(HeldOut set) const {
  const Index all = steps(part(set).front());
  // The first steps of a stream have no history and are harder, so that short data have fewer streams.
  constexpr Index pieces_of_a_stream = 64;
  return {all, std::clamp<Index>(all / (pieces_of_a_stream * options.cut), 1, options.batch), options.cut};
}

void DataTask::Data::prepare_batches() {
  const auto buckets_of = [&](const Numbers& part) {
    std::vector<PairLength> lengths;
    for (const std::int32_t i : part) lengths.push_back({steps(i), 0});
    return LengthBuckets(lengths, options.batch, options.seed);
  };
  if (has_lengths()) {
    buckets = buckets_of(training);
    buckets_of(validation).epoch(0, of_validation);
    buckets_of(test).epoch(0, of_test);
  } else if (std::ssize(training) < options.batch) {
    refuse_sequences(
        fmt::format("the batch is {}, and there are {} sequences to train on; expected a smaller --batch",
                    options.batch, training.size()));
  }
}

DataTask::Data::Survey DataTask::Data::survey(bool with_checksum) const {
  std::vector<bool> is_training(static_cast<std::size_t>(sizes.count()), false);
  for (const std::int32_t i : training) is_training[static_cast<std::size_t>(i)] = true;
  const TrainingRows of_steps{is_training, &sizes.starts, options.ahead};
  const TrainingRows of_targets{is_training, content.every_step ? &sizes.starts : nullptr};
  Survey found;
  if (has_features())
    found.features = orthornn::survey(content.features, feature_columns(), of_steps, with_checksum);
  if (!content.symbols.empty()) found.symbols = orthornn::survey(content.symbols, of_steps, with_checksum);
  if (!content.values.empty())
    found.values = orthornn::survey(content.values, value_columns(), of_targets, with_checksum);
  if (!content.classes.empty()) found.classes = orthornn::survey(content.classes, of_targets, with_checksum);
  check_found(found);
  return found;
}

Index DataTask::Data::sequence_of(Index row) const {
  return std::ranges::upper_bound(sizes.starts, row) - sizes.starts.begin() - 1;
}

std::string DataTask::Data::checksum(const Survey& found) const {
  std::uint32_t all = 0;
  const auto add = [&](std::uint32_t checksum, Index numbers) {
    all = joined_checksum(all, checksum, 4 * numbers);
  };
  for (const ConstTensorView<std::int32_t>& numbers : {content.lengths, content.groups})
    add(crc32_of(numbers.data(), static_cast<std::size_t>(numbers.size()) * sizeof(std::int32_t)),
        numbers.size());
  add(found.features.checksum, content.features.size());
  add(found.values.checksum, content.values.size());
  add(found.symbols.checksum, content.symbols.size());
  add(found.classes.checksum, content.classes.size());
  return fmt::format("{} sequences, CRC-32 {:08x}", sizes.count(), all);
}

DataStatistics DataTask::Data::find_statistics(const Survey& found) const {
  DataStatistics result;
  std::vector<ColumnSums> inputs = found.features.heads;
  for (std::size_t k = 0; k < inputs.size(); ++k) inputs[k].add(found.features.targets[k]);
  check_differences("input", inputs);
  if (options.ahead == 0) check_differences("target", found.values.targets);
  result.features = maps_of(inputs, options.normalization);
  result.symbols = content.symbol_count > 0 ? content.symbol_count : found.symbols.largest_to_train + 1;
  if (has_values()) {
    result.values =
        options.ahead > 0 ? result.features : maps_of(found.values.targets, options.normalization);
  } else {
    result.classes = options.ahead > 0 ? result.symbols : found.classes.largest_to_train + 1;
    result.class_weights = find_class_weights(found);
    if (!result.class_weights.empty())
      result.class_weights.resize(static_cast<std::size_t>(result.classes), 1);
  }
  return result;
}

std::vector<float> DataTask::Data::find_class_weights(const Survey& found) const {
  const std::vector<Index>& counts = class_counts(found);
  if (!options.balanced) {
    if (content.class_weights.size() > counts.size()) {
      refuse_sequences(fmt::format("there are weights of {} classes, and the training data have {}",
                                   content.class_weights.size(), counts.size()));
    }
    return content.class_weights;
  }
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), Index{0}));
  const auto occurring = static_cast<double>(counts.size() - std::ranges::count(counts, 0));
  std::vector<float> weights;
  for (const Index count : counts)
    weights.push_back(count > 0 ? static_cast<float>(all / (occurring * static_cast<double>(count))) : 1.0F);
  return weights;
}

void DataTask::Data::use(const DataStatistics& given, const Survey& found,
                         std::span<const std::string> class_names) {
  if (std::ssize(given.features.shift) != feature_columns() ||
      std::ssize(given.values.shift) != value_columns() || (given.symbols > 0) == has_features() ||
      (given.classes > 0) == has_values())
    refuse_sequences("the data have other inputs or targets than those that the model was trained with");
  check_seen(found, class_names);
  if ((!has_features() && found.symbols.largest >= given.symbols) ||
      (!content.classes.empty() && found.classes.largest >= given.classes)) {
    refuse_sequences(
        fmt::format("there are symbols up to {} and classes up to {}; expected less than {} and {}",
                    found.symbols.largest, found.classes.largest, given.symbols, given.classes));
  }
  if (!given.class_weights.empty() && std::ssize(given.class_weights) != given.classes)
    refuse_sequences(fmt::format("there are {} class weights; expected one for each of {} classes",
                                 given.class_weights.size(), given.classes));
  statistics = given;
  lacks_values = has_values() && found_values(found).has_missing;
  // The first inputs of a forecast are no targets.
  if (lacks_values && options.ahead > 0) {
    const auto is_missing = [](float number) { return std::isnan(number); };
    lacks_values = false;
    for (Index i = 0; !lacks_values && i < sizes.count(); ++i)
      lacks_values = any_target(value_numbers(), whole(i), is_missing);
  }
  find_baseline(found);
}

void DataTask::Data::find_baseline(const Survey& found) {
  baseline = 0;
  deviations.clear();
  if (has_values()) {
    const std::vector<ColumnSums>& columns = found_values(found).targets;
    double all = 0;
    for (const ColumnSums& column : columns) all += static_cast<double>(column.count);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      deviations.push_back(columns[c].deviation());
      baseline += std::pow(deviations[c] / statistics.values.divisor[c], 2) *
                  (static_cast<double>(columns[c].count) / all);
    }
    return;
  }
  const std::vector<Index>& counts = class_counts(found);
  std::vector<double> masses(counts.begin(), counts.end());
  for (std::size_t c = 0; !statistics.class_weights.empty() && c < masses.size(); ++c)
    masses[c] *= static_cast<double>(statistics.class_weights[c]);
  const double all = std::accumulate(masses.begin(), masses.end(), 0.0);
  for (const double mass : masses) {
    if (mass > 0) baseline -= mass / all * std::log(mass / all);
  }
}

}  // namespace orthornn
