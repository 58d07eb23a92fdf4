// What stands in for grid_rollout.cu where it is left out: cmake/cuda.cmake says where.

#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

void grid_rollout(Direction, const RolloutArguments<float>&, const float*, Precision) {
  throw DeviceError("this build has no rollout over the grid; ask for the stepwise one");
}

}  // namespace orthornn::cuda
