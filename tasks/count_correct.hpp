#pragma once

#include "orthornn/core/tensor.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// How many rows of `outputs` [R, C] have their largest entry at `classes` [R]; rows of a negative class do
/// not count. A tie is no answer, and neither is a NaN: both are wrong.
Score count_correct(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes);

}  // namespace orthornn
