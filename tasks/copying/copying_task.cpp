#include "orthornn/tasks/copying_task.hpp"

#include <cmath>

#include "core/fields_json.hpp"
#include "core/for_each.hpp"
#include "pointwise/batches.hpp"
#include "tasks/batches.hpp"
#include "tasks/count_right.hpp"

namespace orthornn {

CopyingTask::CopyingTask(const CopyingOptions& options) : options_(options) {
  check_fields("task copying", options);
  check_batch_size("copying", options.delay, options.batch);  // first, as length() adds to the delay
  check_batch_size("copying", length(), options.batch);
}

double CopyingTask::baseline_loss() const {
  return static_cast<double>(string_length) * std::log(data_symbols) / static_cast<double>(length());
}

bool CopyingTask::solved(const Evaluation& evaluation) const {
  return evaluation.loss < baseline_loss() / 10 && evaluation.metric("accuracy").value_or(0) >= 0.99;
}

void CopyingTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(RandomPurpose::training, step, batch);
}

void CopyingTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  fill(held_out_stream(set), static_cast<std::uint64_t>(number), batch);
}

void CopyingTask::fill(RandomPurpose purpose, std::uint64_t index, Batch& batch) const {
  Tensor<std::int32_t>& symbols = batch.integers(batch_names::symbols);
  Tensor<std::int32_t>& classes = batch.integers(batch_names::classes);
  symbols.reserve({length(), options_.batch});
  classes.reserve({length(), options_.batch});
  for_each_entry(batch.device(), options_.batch, length(),
                 pointwise::CopyingBatch{.stream = PhiloxStream(options_.seed, purpose, index),
                                         .string_length = string_length,
                                         .delay = options_.delay,
                                         .data_symbols = data_symbols,
                                         .blank = blank,
                                         .marker = marker,
                                         .batch = options_.batch,
                                         .symbols = symbols.data(),
                                         .classes = classes.data()});
}

void CopyingTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                                TensorView<double> sums) const {
  const ConstTensorView<std::int32_t> targets = batch.integers(batch_names::classes);
  check_shape("outputs of task copying", outputs.shape(), {length(), targets.shape()[1], classes()});
  const Index first = length() - string_length;
  const Index rows = string_length * targets.shape()[1];
  count_right(outputs.slice(first, string_length).reshaped({rows, classes()}),
              targets.slice(first, string_length).reshaped({rows}), sums[0]);
}

std::string CopyingTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
