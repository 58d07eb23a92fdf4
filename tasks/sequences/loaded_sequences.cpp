#include "tasks/sequences/loaded_sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "tasks/batch_size.hpp"

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

}  // namespace

void refuse_sequences(const std::string& why) { throw ValueError("own sequences: " + why); }

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
      refuse_sequences(fmt::format("sequence {} has length {}; expected 1 or more", i, lengths(i)));
    starts.push_back(starts.back() + lengths(i));
  }
  if (starts.back() != steps[0]) {
    throw ShapeError(fmt::format("the lengths are {} steps in all, and there are {}; expected as many",
                                 starts.back(), steps[0]));
  }
}

namespace {

SequenceSizes sizes_of(const StoredNumbers<float>& features, const StoredNumbers<std::int32_t>& symbols,
                       ConstTensorView<std::int32_t> lengths) {
  if (features.empty() == symbols.empty())
    refuse_sequences("expected either features or symbols, and at least one step of them");
  return SequenceSizes(features.empty() ? symbols.shape() : features.shape(), !features.empty(), lengths);
}

}  // namespace

DataTask::Data::Data(Content given, const DataTaskOptions& given_options)
    : content(std::move(given)),
      options(given_options),
      sizes(sizes_of(content.features, content.symbols, content.lengths)) {
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
        refuse_sequences(
            fmt::format("sequence {} has {} steps; expected more than the {} steps ahead of its target", i,
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
  if (!content.groups.empty()) check_shape("groups", content.groups.shape(), {sizes.count()});
  if (!content.parts.empty()) check_shape("parts", content.parts.shape(), {sizes.count()});
}

std::vector<std::int32_t> drawn_parts(Index count, ConstTensorView<std::int32_t> groups,
                                      const DataTaskOptions& options) {
  std::map<std::int32_t, Numbers> members;  // by group, in the order of their numbers
  for (Index i = 0; i < count; ++i) {
    const auto number = static_cast<std::int32_t>(i);
    members[groups.empty() ? number : groups(i)].push_back(number);
  }
  const auto all = std::ssize(members);
  const auto held_out = [&](double share) {
    return std::max<Index>(1, std::llround(share * static_cast<double>(all)));
  };
  const Index for_validation = held_out(options.validation_part), for_test = held_out(options.test_part);
  if (for_validation + for_test >= all) {
    refuse_sequences(
        fmt::format("{} {} in all, of which {} are for validation and {} for test; expected at least one to "
                    "train on",
                    all, groups.empty() ? "sequences" : "groups", for_validation, for_test));
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
  Numbers drawn;
  if (content.parts.empty()) drawn = drawn_parts(sizes.count(), content.groups, options);
  for (Index i = 0; i < sizes.count(); ++i) {
    const std::int32_t part = content.parts.empty() ? drawn[static_cast<std::size_t>(i)] : content.parts(i);
    if (part < 0 || part > 2)
      refuse_sequences(fmt::format("sequence {} is of part {}; expected 0, 1 or 2", i, part));
    (part == 0 ? training : part == 1 ? validation : test).push_back(static_cast<std::int32_t>(i));
  }
  if (training.empty() || validation.empty() || test.empty()) {
    refuse_sequences(
        fmt::format("{} sequences to train on, {} for validation and {} for test; expected some in each part",
                    training.size(), validation.size(), test.size()));
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
  if (all >= needed) return;
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

std::string DataTask::Data::step_name(Index row) const {
  const Index i = std::ranges::upper_bound(sizes.starts, row) - sizes.starts.begin() - 1;
  return fmt::format("step {} of sequence {}", row - start(i), i);
}

/// Where something is wrong, the numbers are read again to name the place.
void DataTask::Data::check_found(const Survey& found) const {
  const bool may_miss = options.missing != Missing::refuse && options.ahead == 0;
  if (found.features.has_infinite || (found.features.has_missing && !may_miss)) {
    const auto [at, x] = find_number(content.features, [&](float number) {
      return std::isinf(number) || (std::isnan(number) && !may_miss);
    });
    refuse_sequences(
        fmt::format("input {} of {} is {}", at % feature_columns(), step_name(at / feature_columns()),
                    std::isnan(x) ? "missing; see --missing" : "infinite; expected a finite number"));
  }
  if (found.symbols.smallest < 0) {
    const auto [at, x] = find_number(content.symbols, [](std::int32_t number) { return number < 0; });
    refuse_sequences(fmt::format("{} is symbol {}; expected 0 or more", step_name(at), x));
  }
  if (found.values.has_infinite || found.values.has_missing) {
    const auto [at, x] = find_number(content.values, [](float number) { return !std::isfinite(number); });
    refuse_sequences(fmt::format("target {} of row {} is not finite; expected a number", at % value_columns(),
                                 at / value_columns()));
  }
}

std::string DataTask::Data::checksum(const Survey& found) const {
  std::uint32_t all = 0;
  const auto add = [&](std::uint32_t checksum, Index numbers) {
    all = joined_checksum(all, checksum, 4 * numbers);
  };
  for (const ConstTensorView<std::int32_t>& numbers : {content.lengths, content.groups})
    add(checksum_of(numbers.data(), static_cast<std::size_t>(numbers.size()) * sizeof(std::int32_t)),
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
  result.features = maps_of(inputs, options.normalization);
  result.symbols = content.symbol_count > 0 ? content.symbol_count : found.symbols.largest_to_train + 1;
  if (has_values()) {
    result.values =
        options.ahead > 0 ? result.features : maps_of(found.values.targets, options.normalization);
  } else {
    result.classes = options.ahead > 0 ? result.symbols : found.classes.largest_to_train + 1;
  }
  return result;
}

void DataTask::Data::use(const DataStatistics& given, const Survey& found) {
  if (std::ssize(given.features.shift) != feature_columns() ||
      std::ssize(given.values.shift) != value_columns() || (given.symbols > 0) == has_features() ||
      (given.classes > 0) == has_values())
    refuse_sequences("the data have other inputs or targets than those that the model was trained with");
  const auto check = [&](const char* what, const StoredNumbers<std::int32_t>& numbers,
                         const FoundIntegers& of, Index known) {
    if (of.largest < known) return;
    const auto [at, x] = find_number(numbers, [&](std::int32_t number) { return number >= known; });
    const bool is_step = &numbers != &content.classes || content.every_step;
    refuse_sequences(fmt::format("{} has {} {}; expected one that the training data have, 0 to {}",
                                 is_step ? step_name(at) : fmt::format("sequence {}", at), what, x,
                                 known - 1));
  };
  if (!has_features()) check("symbol", content.symbols, found.symbols, given.symbols);
  if (!has_values())
    check("class", class_numbers(), options.ahead > 0 ? found.symbols : found.classes, given.classes);
  statistics = given;
  find_baseline(found);
}

void DataTask::Data::find_baseline(const Survey& found) {
  baseline = 0;
  deviations.clear();
  if (has_values()) {
    const std::vector<ColumnSums>& columns = (options.ahead > 0 ? found.features : found.values).targets;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      deviations.push_back(columns[c].deviation());
      baseline +=
          std::pow(deviations[c] / statistics.values.divisor[c], 2) / static_cast<double>(columns.size());
    }
    return;
  }
  const std::vector<Index>& counts = (options.ahead > 0 ? found.symbols : found.classes).counts;
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), Index{0}));
  for (const Index count : counts) {
    const double share = static_cast<double>(count) / all;
    if (count > 0) baseline -= share * std::log(share);
  }
}

}  // namespace orthornn
