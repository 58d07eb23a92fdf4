#pragma once

#include "orthornn/tasks/task.hpp"

namespace orthornn::testing {

struct Score {
  double right;
  double counted;
};

/// What a task counts for a metric, its first one by default, in the outputs for a batch, all on one device.
inline Score score_of(const Task& task, ConstTensorView<float> outputs, const Batch& batch,
                      Index metric = 0) {
  Tensor<double> sums(task.counters(), outputs.device());
  task.count_metrics(outputs, batch, sums);
  const Tensor<double> here = sums.copy(Device::cpu());
  return {here(metric, 0), here(metric, 1)};
}

}  // namespace orthornn::testing
