#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Adds to `score` [2] how many rows of `outputs` [R, C] have their largest entry at `classes` [R], and how
/// many rows count: those of a class that is not negative. A tie is no answer, and neither is a NaN: both are
/// wrong. All on one device; nothing waits for a GPU. Throws ShapeError, and DeviceError for a score
/// elsewhere.
void count_right(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                 TensorView<double> score);

/// The same for the steps of sequences: rows are those of `outputs` [T, B, C] and `classes` [T, B]. `what`
/// names the outputs in messages.
void count_right_steps(const char* what, ConstTensorView<float> outputs,
                       ConstTensorView<std::int32_t> classes, Index class_count, TensorView<double> score);

/// The same for sequences: how many columns of `classes` [T, B] have all their answers right in `outputs`
/// [T, B, C], and how many have any class that is not negative.
void count_right_sequences(ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes,
                           TensorView<double> score);

}  // namespace orthornn
