#include "tasks/sequences/loaded_sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

using Numbers = std::vector<std::int32_t>;

/// The first `rows` sizes of a shape, or all where there are fewer.
Shape rows_of(const Shape& shape, int rows) {
  Shape result;
  for (int i = 0; i < std::min(rows, shape.rank()); ++i) result.append(shape[i]);
  return result;
}

/// Sum of squares and so on of one column, in double.
struct ColumnSums {
  double mean = 0, square = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  Index count = 0;

  void add(double x) {
    ++count;
    const double before = x - mean;
    mean += before / static_cast<double>(count);  // Welford: no cancellation far from 0
    square += before * (x - mean);
    low = std::min(low, x);
    high = std::max(high, x);
  }
  double deviation() const { return count > 0 ? std::sqrt(square / static_cast<double>(count)) : 0; }
};

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

SequenceSizes::SequenceSizes(const SequenceView& view) {
  const bool has_features = !view.features.empty();
  if (has_features == !view.symbols.empty())
    refuse_sequences("expected either features or symbols, and at least one step of them");
  const int rank = view.lengths.empty() ? 2 : 1;
  const Shape& inputs = has_features ? view.features.shape() : view.symbols.shape();
  if (inputs.rank() != rank + (has_features ? 1 : 0)) {
    throw ShapeError(fmt::format("{} have shape {}; expected {}", has_features ? "features" : "symbols",
                                 to_string(inputs),
                                 has_features ? (rank == 2 ? "[N, T, K]" : "[S, K] with lengths")
                                              : (rank == 2 ? "[N, T]" : "[S] with lengths")));
  }
  steps = rows_of(inputs, rank);
  if (view.lengths.empty()) {
    for (Index i = 0; i < steps[0]; ++i) starts.push_back((i + 1) * steps[1]);
    return;
  }
  if (view.lengths.shape().rank() != 1) check_shape("lengths", view.lengths.shape(), {0});
  for (Index i = 0; i < view.lengths.size(); ++i) {
    if (view.lengths(i) < 1)
      refuse_sequences(fmt::format("sequence {} has length {}; expected 1 or more", i, view.lengths(i)));
    starts.push_back(starts.back() + view.lengths(i));
  }
  if (starts.back() != steps[0]) {
    throw ShapeError(fmt::format("the lengths are {} steps in all, and there are {}; expected as many",
                                 starts.back(), steps[0]));
  }
}

void DataTask::Data::check_targets() const {
  const bool has_classes = !view.classes.empty();
  if (options.ahead > 0) {
    if (has_classes || !view.values.empty())
      refuse_sequences("targets were given, and `ahead` makes targets of the inputs");
    for (Index i = 0; i < sizes.count(); ++i) {
      if (sizes.length(i) <= options.ahead) {
        refuse_sequences(
            fmt::format("sequence {} has {} steps; expected more than the {} steps ahead of its target", i,
                        sizes.length(i), options.ahead));
      }
    }
  } else {
    if (has_classes == !view.values.empty())
      refuse_sequences("expected either classes or values, and at least one of them");
    const Shape expected = view.every_step ? sizes.steps : Shape{sizes.count()};
    const Shape& found = has_classes ? view.classes.shape() : view.values.shape();
    const Shape rows = rows_of(found, expected.rank());
    if (!(rows == expected) || found.rank() != expected.rank() + (has_classes ? 0 : 1)) {
      throw ShapeError(fmt::format("{} have shape {}; expected {} for a target at each {}",
                                   has_classes ? "classes" : "values", to_string(found),
                                   to_string(expected) + (has_classes ? "" : " and the number of columns"),
                                   view.every_step ? "step" : "sequence"));
    }
  }
  if (!view.groups.empty()) check_shape("groups", view.groups.shape(), {sizes.count()});
  if (!view.parts.empty()) check_shape("parts", view.parts.shape(), {sizes.count()});
}

void DataTask::Data::check_numbers() const {
  for (Index i = 0; i < sizes.count(); ++i) {
    for (Index t = 0; t < sizes.length(i); ++t) {
      for (Index k = 0; k < feature_columns(); ++k) {
        const float x = features_at(start(i) + t)[k];
        const bool may_miss = options.missing != Missing::refuse && options.ahead == 0;
        if (std::isfinite(x) || (std::isnan(x) && may_miss)) continue;
        refuse_sequences(
            fmt::format("input {} of step {} of sequence {} is {}", k, t, i,
                        std::isnan(x) ? "missing; see --missing" : "infinite; expected a finite number"));
      }
      if (!has_features() && view.symbols.data()[start(i) + t] < 0)
        refuse_sequences(fmt::format("symbol {} of sequence {} is {}; expected 0 or more", t, i,
                                     view.symbols.data()[start(i) + t]));
    }
  }
  for (Index j = 0; j < view.values.size(); ++j) {
    if (!std::isfinite(view.values.data()[j]))
      refuse_sequences(fmt::format("target {} of row {} is not finite; expected a number",
                                   j % value_columns(), j / value_columns()));
  }
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
  if (view.parts.empty()) drawn = drawn_parts(sizes.count(), view.groups, options);
  for (Index i = 0; i < sizes.count(); ++i) {
    const std::int32_t part = view.parts.empty() ? drawn[static_cast<std::size_t>(i)] : view.parts(i);
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

DataStatistics DataTask::Data::find_statistics() const {
  DataStatistics found;
  std::vector<ColumnSums> inputs(static_cast<std::size_t>(feature_columns()));
  std::vector<ColumnSums> targets(static_cast<std::size_t>(value_columns()));
  for (const std::int32_t i : training) {
    for (Index row = start(i); row < start(i) + sizes.length(i); ++row) {
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (const float x = features_at(row)[k]; !std::isnan(x)) inputs[k].add(x);
      }
      if (!has_features()) found.symbols = std::max<Index>(found.symbols, view.symbols.data()[row] + 1);
    }
    for (Index row = target_row(i); row < target_row(i) + target_count(i); ++row) {
      for (std::size_t c = 0; c < targets.size(); ++c) targets[c].add(values_at(row)[c]);
      if (!has_values()) found.classes = std::max<Index>(found.classes, class_at(row) + 1);
    }
  }
  if (view.symbol_count > 0) found.symbols = view.symbol_count;
  if (options.ahead > 0 && !has_features()) found.classes = found.symbols;
  found.features = maps_of(inputs, options.normalization);
  found.values = options.ahead > 0 ? found.features : maps_of(targets, options.normalization);
  if (!has_values()) found.values = {};
  return found;
}

void DataTask::Data::check(const DataStatistics& statistics) const {
  if (std::ssize(statistics.features.shift) != feature_columns() ||
      std::ssize(statistics.values.shift) != value_columns() || (statistics.symbols > 0) == has_features() ||
      (statistics.classes > 0) == has_values())
    refuse_sequences("the data have other inputs or targets than those that the model was trained with");
  for (const Numbers* part : {&training, &validation, &test}) {
    for (const std::int32_t i : *part) {
      for (Index row = start(i); !has_features() && row < start(i) + sizes.length(i); ++row) {
        if (view.symbols.data()[row] >= statistics.symbols) {
          refuse_sequences(
              fmt::format("step {} of sequence {} is symbol {}, and the training data have {} symbols; "
                          "expected none that they lack",
                          row - start(i), i, view.symbols.data()[row], statistics.symbols));
        }
      }
      for (Index row = target_row(i); !has_values() && row < target_row(i) + target_count(i); ++row) {
        if (class_at(row) >= statistics.classes) {
          refuse_sequences(
              fmt::format("the target of sequence {} is class {}, and the training data have {} classes; "
                          "expected none that they lack",
                          i, class_at(row), statistics.classes));
        }
      }
    }
  }
}

void DataTask::Data::find_baseline(const DataStatistics& statistics) {
  std::vector<double> counts(static_cast<std::size_t>(statistics.classes));
  std::vector<ColumnSums> columns(statistics.values.shift.size());
  double all = 0;
  for (const std::int32_t i : training) {
    for (Index row = target_row(i); row < target_row(i) + target_count(i); ++row) {
      for (std::size_t c = 0; c < columns.size(); ++c)
        columns[c].add(normalized(values_at(row)[c], statistics.values, c));
      if (has_values() || class_at(row) < 0) continue;
      counts[static_cast<std::size_t>(class_at(row))] += 1;
      all += 1;
    }
  }
  baseline = 0;
  for (const double count : counts) {
    if (count > 0) baseline -= count / all * std::log(count / all);
  }
  deviations.clear();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    baseline += std::pow(columns[c].deviation(), 2) / static_cast<double>(columns.size());
    deviations.push_back(columns[c].deviation() * statistics.values.divisor[c]);
  }
}

}  // namespace orthornn
