#pragma once

#include "orthornn/tasks/task.hpp"

namespace orthornn::testing {

struct Score {
  double right;
  double counted;
};

/// What a task counts in the outputs for a batch, all on one device.
inline Score score_of(const Task& task, ConstTensorView<float> outputs, const Batch& batch) {
  Tensor<double> score(Shape{2}, outputs.device());
  task.count_right(outputs, batch, score);
  const Tensor<double> here = score.copy(Device::cpu());
  return {here(0), here(1)};
}

}  // namespace orthornn::testing
