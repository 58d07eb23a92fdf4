// The functions of grid_rollout.cu and few_over_grid_rollout.cu in builds without their kernels.
// cmake/cuda.cmake says which builds these are.

#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

namespace {

constexpr const char* no_grid = "this build has no rollout over the grid; ask for the stepwise one";

}  // namespace

void grid_rollout(Direction, const RolloutArguments<float>&, const float*, const GridPlan&) {
  throw DeviceError(no_grid);
}
void few_over_grid_rollout(Direction, const RolloutArguments<float>&, const float*) {
  throw DeviceError(no_grid);
}

}  // namespace orthornn::cuda
