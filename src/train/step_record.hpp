#pragma once

#include <optional>
#include <string>

#include "cuda/train/step_record.hpp"

namespace orthornn {

using cuda::StepRecord;

/// Adds step number `step` to the record [1], from the BatchLoss `loss` [2] and the gradients' `scale` [2]
/// (gradient_scale.hpp), all on one device. Nothing waits for a GPU; the CPU throws ValueError when no target
/// counts.
void record_step(std::int64_t step, TensorView<const double> loss, TensorView<const double> scale,
                 TensorView<StepRecord> record);

/// What a kernel found wrong in the step that diverged.
struct StepFault {
  std::string message;
  /// Whether it lies in the parameters, not in the batch.
  bool of_parameters;
};
std::optional<StepFault> fault_of(const StepRecord& record);

}  // namespace orthornn
