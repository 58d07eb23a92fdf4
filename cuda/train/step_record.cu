#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/train/step_record.hpp"

namespace orthornn::cuda {
namespace {

__global__ void record_step_kernel(std::int64_t step, const double* loss, const double* scale,
                                   const FaultWord* faults, StepRecord* record) {
  if (record->diverged_step != 0) return;
  const double mean = loss[0] / loss[1];
  const double norm = scale[0];
  FaultWord fault = *faults;
  if (loss[1] == 0 && fault == no_fault) fault = fault_word(Fault::no_target_counts, 0);
  record->loss = mean;
  record->gradient_norm = norm;
  record->fault = fault;
  if (!isfinite(mean) || !isfinite(norm) || fault != no_fault) record->diverged_step = step;
}

}  // namespace

void record_step(std::int64_t step, TensorView<const double> loss, TensorView<const double> scale,
                 TensorView<StepRecord> record) {
  const Context& gpu = context(record.device());
  launch(gpu, record_step_kernel, {.grid = 1, .block = 1}, step, loss.data(), scale.data(), gpu.faults(),
         record.data());
}

}  // namespace orthornn::cuda
