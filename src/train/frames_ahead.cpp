#include "train/frames_ahead.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/host_copy.hpp"
#include "nn/sequences.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// frames <- outputs, with what is below 0 or above 1, which no pixel is, at these borders. A model that read
/// its own outputs as they are would enlarge what is outside at each step.
void take_pixels(TensorView<const float> outputs, TensorView<float> frames) {
  Tensor<float> pixels = host_copy(outputs);
  for (float& x : pixels) x = std::clamp(x, 0.0f, 1.0f);
  copy<float>(pixels, frames);
}

}  // namespace

Tensor<float> outputs_ahead(SequenceModel<float>& model, const Batch& batch, Index count) {
  return outputs_after(model, batch, model.forward(batch), count);
}

Tensor<float> outputs_after(SequenceModel<float>& model, const Batch& batch, TensorView<const float> outputs,
                            Index count) {
  const TensorView<const float> features = batch.reals(batch_names::features);
  if (!(outputs.shape() == features.shape())) {
    throw ValueError(
        fmt::format("the model's outputs are {} for features {}; expected as many numbers, those of "
                    "the next step",
                    to_string(outputs.shape()), to_string(features.shape())));
  }
  const Index sequences = features.shape()[1];
  Tensor<float> found({count, sequences, features.shape()[2]}, model.device());
  gather_last<float>(outputs, batch.integers(batch_names::lengths), found.view()[0]);
  ModelState<float> state;
  model.final_state(state);
  SequenceModel<float>::Generator generator(model, sequences);
  generator.state() = std::move(state);
  Tensor<float> read({sequences, features.shape()[2]}, model.device());
  for (Index m = 1; m < count; ++m) {
    take_pixels(found.view()[m - 1], read);
    copy<float>(generator.step(read), found.view()[m]);
  }
  return found;
}

std::vector<std::vector<MetricValue>> metrics_ahead(SequenceModel<float>& model, const Task& task,
                                                    Index count, const std::function<void()>& after_batch) {
  if (count < 1 || count > task.length()) {
    throw ValueError(
        fmt::format("{} frames ahead were asked for, and clips have {}; expected 1 to {}, as one "
                    "frame is read",
                    count, task.length() + 1, task.length()));
  }
  const Index read = task.length() + 1 - count;
  std::vector<Tensor<double>> sums;
  for (Index m = 0; m < count; ++m) sums.emplace_back(task.counters(), model.device());
  Batch whole(model.device()), seen(model.device()), expected(model.device());
  for (Index i = 0; i < task.evaluation_batches(HeldOut::test); ++i) {
    task.evaluation_batch(HeldOut::test, i, whole);
    const TensorView<const float> features = std::as_const(whole).reals(batch_names::features).slice(0, read),
                                  values = std::as_const(whole).reals(batch_names::values);
    Tensor<float>& first = seen.reals(batch_names::features);
    first.reserve(features.shape());
    copy<float>(features, first.view());
    const Tensor<float> found = outputs_ahead(model, seen, count);
    for (Index m = 0; m < count; ++m) {
      const TensorView<const float> of_frame = values.slice(read - 1 + m, 1);
      Tensor<float>& to = expected.reals(batch_names::values);
      to.reserve(of_frame.shape());
      copy<float>(of_frame, to.view());
      task.count_metrics(found.view().slice(m, 1), expected, sums[static_cast<std::size_t>(m)]);
    }
    if (after_batch) after_batch();
  }
  std::vector<std::vector<MetricValue>> metrics;
  for (const Tensor<double>& of_frame : sums) {
    const std::vector<double> values = task.metric_values(host_copy(of_frame.view()).view(), 0);
    std::vector<MetricValue>& row = metrics.emplace_back();
    for (const Metric& metric : task.metrics()) row.push_back({metric, values[row.size()]});
  }
  return metrics;
}

}  // namespace orthornn
