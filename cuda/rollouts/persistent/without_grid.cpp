// The functions of grid_rollout.cu in builds without its kernels. cmake/cuda.cmake says which builds these
// are.

#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

void grid_rollout(Direction, const RolloutArguments<float>&, const float*, const GridPlan&) {
  throw DeviceError("this build has no rollout over the grid; ask for the stepwise one");
}

}  // namespace orthornn::cuda
