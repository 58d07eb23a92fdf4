#include "orthornn/tasks/data_task.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "orthornn/core/error.hpp"
#include "tasks/batches.hpp"
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
  use(Content(sequences), nullptr, nullptr);
}

DataTask::~DataTask() = default;

void DataTask::use(const Content& content, const DataStatistics* known, std::string* checksum,
                   std::span<const std::string> class_names) const {
  auto data = std::make_unique<Data>(content, options_);
  const Data::Survey found = data->survey(checksum != nullptr);
  if (checksum != nullptr) {
    const std::string of_found = data->checksum(found);
    if (!checksum->empty() && *checksum != of_found) {
      refuse_sequences(
          fmt::format("they are other data than those that the model was trained with ({} there, {} here); "
                      "name the data of the training, or use predict for data of your own",
                      *checksum, of_found));
    }
    *checksum = of_found;
  }
  data->use(known != nullptr ? *known : data->find_statistics(found), found, class_names);
  statistics_ = data->statistics;
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
          .every_step = data_ ? data_->every_step() : options_.ahead > 0,
          .is_forecast = options_.ahead > 0};
}

Index DataTask::length() const { return data_ ? data_->longest : 1; }

std::optional<Index> DataTask::batches_per_epoch() const { return loaded().batches_per_epoch(); }

double DataTask::baseline_loss() const { return loaded().baseline; }

Index DataTask::evaluation_batches(HeldOut set) const { return loaded().evaluation_batches(set); }

namespace {

/// Sends what a DataTask writes into a batch, in the order in which it does. The features alone, the largest
/// tensor, are in page-locked memory.
void send_batch(const Batch& from, Batch& to, HostStaging& staging) {
  const auto copy_tensor = [&]<class T>(TensorView<const T> numbers, Tensor<T>& tensor) {
    tensor.reserve(numbers.shape());
    staging.fill<T>(tensor.view(), [&](TensorView<T> copied) { copy<T>(numbers, copied); });
  };
  const auto copy_reals = [&](std::string_view name) {
    if (!from.reals(name).empty()) copy_tensor(from.reals(name), to.reals(name));
  };
  const auto copy_integers = [&](std::string_view name) {
    if (!from.integers(name).empty()) copy_tensor(from.integers(name), to.integers(name));
  };
  to.set_piece(from.piece());
  if (const auto features = from.reals(batch_names::features); !features.empty()) {
    Tensor<float>& tensor = to.reals(batch_names::features);
    tensor.reserve(features.shape());
    staging.send<float>(features, tensor.view());
  }
  copy_integers(batch_names::symbols);
  copy_integers(batch_names::lengths);
  copy_reals(batch_names::values);
  copy_integers(batch_names::classes);
  copy_reals(batch_names::weights);
}

}  // namespace

void DataTask::training_batch(std::uint64_t step, Batch& batch) const {
  loaded();
  Data& data = *data_;
  if (!data.in_file() && !batch.device().is_cuda()) return data.training_batch(step, data.here, batch);
  if (!data.prefetched) {
    for (Assembly& assembly : data.ahead) assembly.reader = batch.device();
    data.prefetched.emplace([&data](std::size_t thread, std::uint64_t of_step, Batch& to) {
      data.training_batch(of_step, data.ahead[thread], to);
    });
  }
  // A thread may write where the last batch was.
  data.here.staging.wait_until_sent();
  send_batch(data.prefetched->batch(step), batch, data.here.staging);
}

void DataTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index batches = evaluation_batches(set);
  if (number < 0 || number >= batches)
    refuse_sequences(fmt::format("evaluation batch {} was asked for; there are {}", number, batches));
  data_->evaluation_batch(set, number, data_->here, batch);
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
        throw ValueError(fmt::format(
            "input {} of row {} is {}", k, row,
            std::isinf(from[k]) ? "infinite; expected a finite number"
                                : "missing; expected a number, as the model was trained without --missing"));
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
