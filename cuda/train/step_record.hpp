#pragma once

#include <cstdint>

#include "cuda/core/fault.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::cuda {

/// What the steps of a training leave on a GPU until the host looks. All zeros at the start.
struct StepRecord {
  /// The first step whose loss or gradient norm was not finite or that met a fault; 0: none. The optimizer
  /// reads it: from there on nothing is updated.
  std::int64_t diverged_step;
  /// The mean of the last step, or of the one that diverged.
  double loss;
  double gradient_norm;
  /// Of the step that diverged.
  FaultWord fault;
};

/// Whether a fault lies in the parameters of a model, not in a batch.
constexpr bool is_of_parameters(FaultWord fault) { return fault < fault_word(Fault::symbol_out_of_range, 0); }

/// Adds step number `step` to the record [1], from the BatchLoss `loss` [2] and the gradients' `scale` [2]
/// (gradient_scale.hpp).
void record_step(std::int64_t step, TensorView<const double> loss, TensorView<const double> scale,
                 TensorView<StepRecord> record);

}  // namespace orthornn::cuda
