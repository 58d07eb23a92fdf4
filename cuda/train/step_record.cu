#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/train/step_record.hpp"

namespace orthornn::cuda {
namespace {

__global__ void record_step_kernel(std::int64_t step, const double* loss, const double* gradient_norm,
                                   const FaultWord* faults, StepRecord* record) {
  if (record->diverged_step != 0) return;
  record->loss = *loss;
  record->gradient_norm = *gradient_norm;
  record->fault = *faults;
  if (!isfinite(*loss) || !isfinite(*gradient_norm) || *faults != no_fault) record->diverged_step = step;
}

}  // namespace

void record_step(std::int64_t step, TensorView<const double> loss, TensorView<const double> gradient_norm,
                 TensorView<StepRecord> record) {
  const Context& gpu = context(record.device());
  launch(gpu, record_step_kernel, {.grid = 1, .block = 1}, step, loss.data(), gradient_norm.data(),
         gpu.faults(), record.data());
}

}  // namespace orthornn::cuda
