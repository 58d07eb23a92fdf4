#pragma once

#include <cstdint>

#include "core/for_each.hpp"
#include "core/live_steps.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/linalg/matrix_view.hpp"
#include "pointwise/sequences.hpp"

namespace orthornn {

/// In which order a direction reads the steps of B sequences. `reversed`: its step t is the last but t of the
/// live steps. Padding stays where it is, so that the order is its own inverse.
struct StepOrder {
  Index batch;
  /// [B], or empty when all steps are live.
  TensorView<const std::int32_t> lengths;
  bool reversed;
};

/// to <- (or +=) from in that order: matrices of one column for each of the T steps and B sequences.
template <class U>
void copy_steps(MatrixView<const std::type_identity_t<U>> from, MatrixView<U> to, const StepOrder& order,
                bool adds = false) {
  for_each_entry(to.device, to.rows, to.cols,
                 pointwise::CopySteps<U>{.from = from.data,
                                         .from_stride = from.stride,
                                         .to = to.data,
                                         .to_stride = to.stride,
                                         .lengths = or_null(order.lengths),
                                         .length = to.cols / order.batch,
                                         .batch = order.batch,
                                         .reversed = order.reversed,
                                         .adds = adds});
}

}  // namespace orthornn
