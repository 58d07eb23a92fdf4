// The functions of lstm_rollout.cu and gru_rollout.cu in builds without their kernels. cmake/cuda.cmake says
// which builds these are.

#include "cuda/layers/gated_rollout.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

void lstm_grid_rollout(Direction, const GatedRolloutArguments&, const float*, const GridPlan&) {
  throw DeviceError("this build has no rollout over the grid; ask for the stepwise one");
}

void gru_grid_rollout(Direction, const GatedRolloutArguments&, const float*, const GridPlan&) {
  throw DeviceError("this build has no rollout over the grid; ask for the stepwise one");
}

}  // namespace orthornn::cuda
