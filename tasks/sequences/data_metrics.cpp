// What a DataTask counts in the outputs of a model, and the metrics that are made of it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/host_copy.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/count_right.hpp"
#include "tasks/sequences/loaded_sequences.hpp"

namespace orthornn {
namespace {

/// With more classes, all logits would go through the host to be counted class by class.
constexpr Index most_counted_classes = 1000;

/// Rows of the sums of target numbers: one for each metric.
enum : Index { root_mean_squared, mean_absolute, over_deviation };

/// Columns of the sums of a class.
enum : Index { right_answers, expected_answers, given_answers };

/// The class of the largest entry. A tie is no answer, and neither is a NaN: it is -1 then.
Index answer_in(ConstTensorView<float> row) {
  Index largest = 0;
  for (Index c = 1; c < row.size(); ++c) {
    if (row(c) > row(largest)) largest = c;
  }
  for (Index c = 0; c < row.size(); ++c) {
    if (c != largest && !(row(largest) > row(c))) return -1;
  }
  return largest;
}

/// Counts the answers in outputs [R, C] for classes [R], of which negative ones do not count. Adds to `sums`
/// [C, 3].
void count_answers(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                   TensorView<double> sums) {
  for (Index i = 0; i < classes.size(); ++i) {
    if (classes(i) < 0) continue;
    const Index answer = answer_in(outputs[i]);
    sums(classes(i), expected_answers) += 1;
    if (answer >= 0) sums(answer, given_answers) += 1;
    if (answer == classes(i)) sums(answer, right_answers) += 1;
  }
}

/// Accuracy, balanced accuracy and macro F1 of sums [C, 3]. A class that neither occurs nor is answered is in
/// no mean.
std::vector<double> class_metrics(ConstTensorView<double> sums) {
  double right = 0, expected = 0, recalls = 0, occurring = 0, f1s = 0, named = 0;
  for (Index c = 0; c < sums.shape()[0]; ++c) {
    const double of_class = sums(c, expected_answers), answered = sums(c, given_answers);
    right += sums(c, right_answers);
    expected += of_class;
    if (of_class > 0) {
      recalls += sums(c, right_answers) / of_class;
      occurring += 1;
    }
    if (of_class + answered > 0) {
      f1s += 2 * sums(c, right_answers) / (of_class + answered);
      named += 1;
    }
  }
  if (expected == 0) return std::vector<double>(3, std::numeric_limits<double>::quiet_NaN());
  return {right / expected, recalls / occurring, f1s / named};
}

/// Adds the cross-entropy of outputs [R, C] for classes [R], of which negative ones do not count, and their
/// number to `sums` [2]: the loss, were there no weights.
void count_nats(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                TensorView<double> sums) {
  const Tensor<float> rows = host_copy(outputs);
  const Tensor<std::int32_t> targets = host_copy(classes);
  Tensor<double> counts = host_copy(TensorView<const double>(sums));
  for (Index i = 0; i < targets.size(); ++i) {
    if (targets(i) < 0) continue;
    const ConstTensorView<float> row = rows.view()[i];
    const double largest = *std::ranges::max_element(row);
    double total = 0;
    for (const float y : row) total += std::exp(static_cast<double>(y) - largest);
    counts(0) += std::log(total) - (static_cast<double>(row(targets(i))) - largest);
    counts(1) += 1;
  }
  copy<double>(counts.view(), sums);
}

/// Adds the bytes of the symbols that are targets, and their number, to `sums` [2].
void count_bytes(ConstTensorView<std::int32_t> bytes, ConstTensorView<std::int32_t> classes,
                 TensorView<double> sums) {
  Tensor<double> counts = host_copy(TensorView<const double>(sums));
  for (const std::int32_t symbol : host_copy(classes)) {
    if (symbol < 0) continue;
    counts(0) += bytes(symbol);
    counts(1) += 1;
  }
  copy<double>(counts.view(), sums);
}

}  // namespace

DataTask::Counted DataTask::counted() const {
  loaded();
  if (statistics_.classes == 0) return Counted::errors;
  const bool each_class = options_.ahead == 0 && statistics_.classes <= most_counted_classes;
  return each_class ? Counted::answers : Counted::right;
}

std::vector<Metric> DataTask::metrics() const {
  switch (counted()) {
    case Counted::errors:
      return {{"rmse", "RMSE", false}, {"mae", "MAE", false}, {"nrmse", "NRMSE", false}};
    case Counted::answers:
      return {Metric::accuracy(), {"balanced_accuracy", "balanced accuracy"}, {"macro_f1", "macro F1"}};
    default:
      if (options_.ahead == 0) return {Metric::accuracy()};
      if (data_->has_bytes()) {
        return {Metric::accuracy(), Metric::perplexity(), Metric::bits_per_symbol(), Metric::bits_per_byte()};
      }
      return {Metric::accuracy(), Metric::perplexity(), Metric::bits_per_symbol()};
  }
}

Shape DataTask::counters() const {
  switch (counted()) {
    case Counted::errors:
      return {3, 2};
    case Counted::answers:
      return {statistics_.classes, 3};
    default:
      return {1 + (data_->has_weighted_symbols() ? 1 : 0) + (data_->has_bytes() ? 1 : 0), 2};
  }
}

std::vector<double> DataTask::metric_values(ConstTensorView<double> sums, double mean_loss) const {
  const Counted kind = counted();
  if (kind == Counted::answers) return class_metrics(sums);
  std::vector<double> values = Task::metric_values(sums, mean_loss);
  // The number of bytes of a symbol, and the loss without weights, where they are counted.
  const double bytes = values.back(), nats = data_->has_weighted_symbols() ? values[1] : mean_loss;
  if (kind == Counted::right) values.resize(1);
  if (kind == Counted::errors) {
    for (const Index squared : {root_mean_squared, over_deviation}) {
      double& value = values[static_cast<std::size_t>(squared)];
      value = std::sqrt(value);
    }
  } else if (options_.ahead > 0) {
    values.push_back(std::exp(nats));
    values.push_back(nats / std::numbers::ln2);
    if (data_->has_bytes()) values.push_back(nats / std::numbers::ln2 / bytes);
  }
  return values;
}

void DataTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                             TensorView<double> sums) const {
  const Counted kind = counted();
  check_shape("sums of own sequences", sums.shape(), counters());
  if (kind == Counted::errors) return count_errors(outputs, batch, sums);
  const ConstTensorView<std::int32_t> classes = batch.integers(batch_names::classes);
  Shape expected = classes.shape();
  expected.append(statistics_.classes);
  check_shape("outputs of own sequences", outputs.shape(), expected);
  const auto rows = outputs.reshaped({classes.size(), statistics_.classes});
  if (kind == Counted::right) {
    count_right(rows, classes.reshaped({classes.size()}), sums[0]);
    if (data_->has_bytes()) count_bytes(data_->content.symbol_bytes, classes, sums[sums.shape()[0] - 1]);
    if (data_->has_weighted_symbols()) count_nats(rows, classes.reshaped({classes.size()}), sums[1]);
    return;
  }
  // On the host: an evaluation has few batches, and these numbers are few.
  Tensor<double> counts = host_copy(TensorView<const double>(sums));
  const Tensor<float> logits = host_copy(TensorView<const float>(rows));
  count_answers(logits, host_copy(classes.reshaped({classes.size()})), counts.view());
  copy<double>(counts.view(), sums);
}

void DataTask::count_errors(ConstTensorView<float> outputs, const Batch& batch,
                            TensorView<double> sums) const {
  const Data& data = *data_;
  const Tensor<float> found = host_copy(TensorView<const float>(outputs)),
                      expected = host_copy(batch.reals(batch_names::values));
  const Tensor<std::int32_t> lengths = host_copy(batch.integers(batch_names::lengths));
  const Tensor<float> weights = host_copy(batch.reals(batch_names::weights));
  check_shape("outputs of own sequences", found.shape(), expected.shape());
  Tensor<double> counts = host_copy(TensorView<const double>(sums));
  const Index columns = data.value_columns(), rows = found.size() / columns;
  for (Index row = 0; row < rows; ++row) {
    const bool is_padding =
        data.every_step() && !lengths.view().empty() && row / lengths.size() >= lengths(row % lengths.size());
    if (is_padding) continue;
    for (Index c = 0; c < columns; ++c) {
      if (!weights.view().empty() && weights.data()[row * columns + c] == 0) continue;
      const auto column = static_cast<std::size_t>(c);
      const double error = static_cast<double>(statistics_.values.divisor[column]) *
                           (static_cast<double>(found.data()[row * columns + c]) -
                            static_cast<double>(expected.data()[row * columns + c]));
      const double deviation = data.deviations[column] > 0 ? data.deviations[column] : 1;
      counts(root_mean_squared, 0) += error * error;
      counts(mean_absolute, 0) += std::abs(error);
      counts(over_deviation, 0) += error * error / (deviation * deviation);
      for (const Index metric : {root_mean_squared, mean_absolute, over_deviation}) counts(metric, 1) += 1;
    }
  }
  copy<double>(counts.view(), sums);
}

}  // namespace orthornn
