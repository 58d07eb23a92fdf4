#include "cuda/layers/gated_element.cuh"
#include "pointwise/lstm.hpp"

namespace orthornn::cuda {

void lstm_grid_rollout(Direction direction, const GatedRolloutArguments& arguments, const float* weights,
                       const GridPlan& plan) {
  gated_grid_rollout<pointwise::Lstm>(direction, arguments, weights, plan);
}

}  // namespace orthornn::cuda
