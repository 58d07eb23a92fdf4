#include "train/step_record.hpp"

#include <cmath>

#include "core/back_end.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn {

void record_step(std::int64_t step, TensorView<const double> loss, TensorView<const double> scale,
                 TensorView<StepRecord> record) {
  if constexpr (has_cuda_bodies) {
    if (record.device().is_cuda()) return cuda::record_step(step, loss, scale, record);
  }
  StepRecord& here = record(0);
  if (here.diverged_step != 0) return;
  here.loss = BatchLoss{.sum = loss(0), .count = loss(1)}.mean();
  here.gradient_norm = scale(0);
  here.fault = cuda::no_fault;
  if (!std::isfinite(here.loss) || !std::isfinite(here.gradient_norm)) here.diverged_step = step;
}

std::optional<StepFault> fault_of(const StepRecord& record) {
  if constexpr (has_cuda_bodies) {
    try {
      cuda::throw_fault(record.fault);
    } catch (const ValueError& error) {
      return StepFault{error.what(), cuda::is_of_parameters(record.fault)};
    }
  }
  return std::nullopt;
}

}  // namespace orthornn
