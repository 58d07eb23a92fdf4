// The functions of few_sequences_rollout.cu in builds without its kernels. cmake/cuda.cmake says which builds
// these are.

#include "cuda/rollouts/persistent/cluster_rollout.hpp"

namespace orthornn::cuda {

bool few_sequences_rollout(Direction, const RolloutArguments<float>&, const float*) { return false; }

}  // namespace orthornn::cuda
