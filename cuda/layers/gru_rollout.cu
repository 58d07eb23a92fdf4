#include "cuda/layers/gated_element.cuh"
#include "pointwise/gru.hpp"

namespace orthornn::cuda {

void gru_grid_rollout(Direction direction, const GatedRolloutArguments& arguments, const float* weights,
                      const GridPlan& plan) {
  gated_grid_rollout<pointwise::Gru>(direction, arguments, weights, plan);
}

}  // namespace orthornn::cuda
