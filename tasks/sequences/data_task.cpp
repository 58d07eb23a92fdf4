#include "orthornn/tasks/data_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "tasks/batch_size.hpp"
#include "tasks/count_right.hpp"
#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {

DataTask::DataTask(const DataTaskOptions& options) : options_(options) {
  const auto check_part = [](const char* what, double share) {
    if (!(share > 0 && share < 1))
      refuse_sequences(fmt::format("the {} part is {}; expected a number above 0 and below 1", what, share));
  };
  check_part("validation", options.validation_part);
  check_part("test", options.test_part);
  if (options.ahead < 0) refuse_sequences(fmt::format("{} steps ahead; expected 0 or more", options.ahead));
  if (options.cut < 0) refuse_sequences(fmt::format("pieces of {} steps; expected 0 or more", options.cut));
  check_batch_size("sequences", 1, options.batch);
}

DataTask::DataTask(const SequenceView& sequences, const DataTaskOptions& options) : DataTask(options) {
  use(sequences, nullptr);
}

DataTask::~DataTask() = default;

void DataTask::use(const SequenceView& sequences, const DataStatistics* known) const {
  auto data = std::make_unique<Data>(sequences, options_);
  const DataStatistics statistics = known != nullptr ? *known : data->find_statistics();
  data->check(statistics);
  data->find_baseline(statistics);
  statistics_ = statistics;
  data_ = std::move(data);
}

void DataTask::use(const DataStatistics& known) const { statistics_ = known; }

bool DataTask::has_data() const { return data_ != nullptr; }

const DataTask::Data& DataTask::loaded() const {
  load();
  return *data_;
}

const DataStatistics& DataTask::statistics() const { return statistics_; }

SequenceData DataTask::data() const {
  const auto inputs = std::ssize(statistics_.features.shift);
  return {.symbols = statistics_.symbols,
          .features = options_.missing == Missing::mask ? 2 * inputs : inputs,
          .classes = statistics_.classes,
          .values = std::ssize(statistics_.values.shift),
          .every_step = data_ ? data_->every_step() : options_.ahead > 0};
}

Index DataTask::length() const { return data_ ? data_->longest : 1; }

std::optional<Index> DataTask::batches_per_epoch() const {
  const Data& data = loaded();
  if (options_.cut > 0) return data.training_streams().pieces;
  return data.buckets ? data.buckets->batches() : std::ssize(data.training) / options_.batch;
}

double DataTask::baseline_loss() const { return loaded().baseline; }

Index DataTask::evaluation_batches(HeldOut set) const {
  const Data& data = loaded();
  if (options_.cut > 0) return data.streams(set).pieces;
  return (std::ssize(data.part(set)) + options_.batch - 1) / options_.batch;
}

void DataTask::training_batch(std::uint64_t step, Batch& batch) const {
  const auto batches = static_cast<std::uint64_t>(*batches_per_epoch());
  Data& data = *data_;
  const std::uint64_t epoch = step / batches;
  const auto number = static_cast<Index>(step % batches);
  if (options_.cut > 0)
    return fill_piece(data.training.front(), data.training_streams().count, number, batch);
  if (data.epoch != epoch && data.buckets) data.buckets->epoch(epoch, data.of_epoch);
  if (data.epoch != epoch && !data.buckets) {
    data.order.resize(data.training.size());
    random_permutation({data.order.data(), Shape{std::ssize(data.order)}},
                       RandomStream(options_.seed, RandomPurpose::shuffle, epoch));
    for (std::int32_t& i : data.order) i = data.training[static_cast<std::size_t>(i)];
  }
  data.epoch = epoch;
  if (!data.buckets) {
    return fill(std::span(data.order)
                    .subspan(static_cast<std::size_t>(number * options_.batch),
                             static_cast<std::size_t>(options_.batch)),
                batch);
  }
  data.chosen.clear();
  for (const std::int32_t i : data.of_epoch[number])
    data.chosen.push_back(data.training[static_cast<std::size_t>(i)]);
  fill(data.chosen, batch);
}

void DataTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index batches = evaluation_batches(set);
  if (number < 0 || number >= batches)
    refuse_sequences(fmt::format("evaluation batch {} was asked for; there are {}", number, batches));
  Data& data = *data_;
  const std::vector<std::int32_t>& part = data.part(set);
  if (options_.cut > 0) return fill_piece(part.front(), data.streams(set).count, number, batch);
  data.chosen.clear();
  if (data.buckets) {
    const EpochBatches& batches_of = set == HeldOut::validation ? data.of_validation : data.of_test;
    for (const std::int32_t i : batches_of[number]) data.chosen.push_back(part[static_cast<std::size_t>(i)]);
  } else {
    const auto first = static_cast<std::size_t>(number * options_.batch);
    const std::size_t last = std::min(part.size(), first + static_cast<std::size_t>(options_.batch));
    data.chosen.assign(part.begin() + static_cast<std::ptrdiff_t>(first),
                       part.begin() + static_cast<std::ptrdiff_t>(last));
  }
  fill(data.chosen, batch);
}

void DataTask::fill(std::span<const std::int32_t> sequences, Batch& batch) const {
  Data& data = *data_;
  data.stretches.clear();
  for (const std::int32_t i : sequences) data.stretches.push_back({i, 0, data.steps(i)});
  batch.set_piece(std::nullopt);
  fill_stretches(batch);
}

/// The next steps of each of the streams into which a sequence is divided.
void DataTask::fill_piece(Index sequence, Index streams, Index number, Batch& batch) const {
  Data& data = *data_;
  const Streams all(data.steps(sequence), streams, options_.cut);
  const Index first = number * options_.cut;
  data.stretches.clear();
  for (Index b = 0; b < streams; ++b) {
    data.stretches.push_back({sequence, b * all.steps + first, std::min(options_.cut, all.steps - first)});
  }
  batch.set_piece(number);
  fill_stretches(batch);
}

void DataTask::fill_stretches(Batch& batch) const {
  const Data& data = *data_;
  const Index count = std::ssize(data.stretches);
  Index steps = 0;
  for (const Stretch& stretch : data.stretches) steps = std::max(steps, stretch.steps);
  const auto integers = [&](std::string_view name, const Shape& shape, const auto& write) {
    Tensor<std::int32_t>& tensor = batch.integers(name);
    tensor.reserve(shape);
    staging_.fill<std::int32_t>(tensor.view(), write);
  };
  const auto reals = [&](std::string_view name, const Shape& shape, const auto& write) {
    Tensor<float>& tensor = batch.reals(name);
    tensor.reserve(shape);
    staging_.fill<float>(tensor.view(), write);
  };
  const DataStatistics& known = statistics_;
  // 1. Inputs.
  if (data.has_features()) {
    reals(batch_names::features, {steps, count, this->data().features},
          [&](TensorView<float> to) { data.write_features(known.features, to); });
  } else {
    integers(batch_names::symbols, {steps, count},
             [&](TensorView<std::int32_t> to) { data.write_symbols(to); });
  }
  if (data.has_lengths())
    integers(batch_names::lengths, {count}, [&](TensorView<std::int32_t> to) { data.write_lengths(to); });
  // 2. Targets.
  Shape targets = data.every_step() ? Shape{steps, count} : Shape{count};
  if (data.has_values()) {
    targets.append(data.value_columns());
    reals(batch_names::values, targets, [&](TensorView<float> to) { data.write_values(known.values, to); });
  } else {
    integers(batch_names::classes, targets, [&](TensorView<std::int32_t> to) { data.write_classes(to); });
  }
}

namespace {

// Numbers of the metrics of target numbers.
enum : Index { root_mean_squared, mean_absolute, over_deviation };

}  // namespace

std::vector<Metric> DataTask::metrics() const {
  loaded();
  if (statistics_.classes > 0) return {Metric::accuracy()};
  return {{"rmse", "RMSE", false}, {"mae", "MAE", false}, {"nrmse", "NRMSE", false}};
}

double DataTask::metric_value(Index metric, double sum, double count) const {
  const bool is_root = statistics_.classes == 0 && metric != mean_absolute;
  return is_root ? std::sqrt(sum / count) : sum / count;
}

void DataTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                             TensorView<double> sums) const {
  const Data& data = loaded();
  if (statistics_.classes > 0) {
    const ConstTensorView<std::int32_t> classes = batch.integers(batch_names::classes);
    if (data.every_step())
      return count_right_steps("outputs of own sequences", outputs, classes, statistics_.classes, sums[0]);
    check_shape("outputs of own sequences", outputs.shape(), {classes.size(), statistics_.classes});
    return count_right(outputs, classes, sums[0]);
  }
  // On the host: an evaluation has few batches, and these numbers are few.
  const auto here = []<class T>(TensorView<const T> view) {
    Tensor<T> copied;
    copied.reserve(view.shape());
    copy<T>(view, copied.view());
    return copied;
  };
  const Tensor<float> found = here(TensorView<const float>(outputs)),
                      expected = here(batch.reals(batch_names::values));
  const Tensor<std::int32_t> lengths = here(batch.integers(batch_names::lengths));
  check_shape("outputs of own sequences", found.shape(), expected.shape());
  Tensor<double> counted = here(TensorView<const double>(sums));
  const Index columns = data.value_columns(), rows = found.size() / columns;
  for (Index row = 0; row < rows; ++row) {
    const bool is_padding =
        data.every_step() && !lengths.view().empty() && row / lengths.size() >= lengths(row % lengths.size());
    if (is_padding) continue;
    for (Index c = 0; c < columns; ++c) {
      const auto column = static_cast<std::size_t>(c);
      const double error = static_cast<double>(statistics_.values.divisor[column]) *
                           (static_cast<double>(found.data()[row * columns + c]) -
                            static_cast<double>(expected.data()[row * columns + c]));
      const double deviation = data.deviations[column] > 0 ? data.deviations[column] : 1;
      counted(root_mean_squared, 0) += error * error;
      counted(mean_absolute, 0) += std::abs(error);
      counted(over_deviation, 0) += error * error / (deviation * deviation);
      for (const Index metric : {root_mean_squared, mean_absolute, over_deviation}) counted(metric, 1) += 1;
    }
  }
  copy<double>(counted.view(), sums);
}

std::string DataTask::config() const { return R"({"task": "data"})"; }

Tensor<float> DataTask::own_features(ConstTensorView<float> features) const {
  const ColumnMaps& maps = statistics_.features;
  const auto inputs = std::ssize(maps.shift);
  const Index given = features.shape().rank() > 0 ? features.shape()[-1] : 0;
  if (given != inputs)
    throw ShapeError(fmt::format("features have {} columns; this model was trained with {}", given, inputs));
  Shape shape(features.shape().begin(), features.shape().end() - 1);
  const Index columns = options_.missing == Missing::mask ? 2 * inputs : inputs;
  shape.append(columns);
  Tensor<float> prepared(shape);
  for (Index row = 0; row < features.size() / inputs; ++row) {
    const float* from = features.data() + row * inputs;
    for (Index k = 0; k < inputs; ++k) {
      if (std::isinf(from[k]) || (std::isnan(from[k]) && options_.missing == Missing::refuse))
        throw ValueError(fmt::format("input {} of row {} is not finite; expected a number", k, row));
    }
    normalize_row(from, maps, prepared.data() + row * columns, columns);
  }
  return prepared;
}

void DataTask::restore_outputs(TensorView<float> outputs) const {
  const ColumnMaps& maps = statistics_.values;
  const auto columns = std::ssize(maps.shift);
  for (Index j = 0; columns > 0 && j < outputs.size(); ++j) {
    const auto column = static_cast<std::size_t>(j % columns);
    outputs.data()[j] = outputs.data()[j] * maps.divisor[column] + maps.shift[column];
  }
}

}  // namespace orthornn
