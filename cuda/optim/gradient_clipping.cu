#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/optim/gradient_clipping.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
// As many sums as every block of the second kernel adds again, which costs less than a kernel that adds them.
constexpr Index max_blocks = 256;

template <class T>
__global__ void sum_squares(const T* gradients, Index count, double* sums) {
  __shared__ double partial[threads / warp_size];
  double sum = 0;
  for (Index i = grid_thread(); i < count; i += static_cast<Index>(gridDim.x) * blockDim.x) {
    const double gradient = static_cast<double>(gradients[i]);
    sum += gradient * gradient;
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class T>
__global__ void scale_to_norm(T* gradients, Index count, const double* sums, Index sum_count, double max_norm,
                              double* norm_out) {
  __shared__ double partial[threads / warp_size];
  double part = 0;
  for (Index i = threadIdx.x; i < sum_count; i += threads) part += sums[i];
  const double norm = sqrt(block_sum(part, partial));
  if (blockIdx.x == 0 && threadIdx.x == 0) *norm_out = norm;
  if (!(max_norm > 0 && norm > max_norm && isfinite(norm))) return;
  const T factor = static_cast<T>(max_norm / norm);
  for (Index i = grid_thread(); i < count; i += static_cast<Index>(gridDim.x) * blockDim.x) {
    gradients[i] *= factor;
  }
}

}  // namespace

template <class T>
void clip_by_global_norm(TensorView<T> gradients, double max_norm, TensorView<double> norm) {
  Context& gpu = context(gradients.device());
  const Index count = gradients.size();
  const Index blocks = std::clamp<Index>(blocks_for(count, threads), 1, max_blocks);
  double* sums = gpu.scratch<double>(static_cast<std::size_t>(blocks));
  const LaunchShape shape{.grid = static_cast<unsigned>(blocks), .block = threads};
  launch(gpu, sum_squares<T>, shape, gradients.data(), count, sums);
  launch(gpu, scale_to_norm<T>, shape, gradients.data(), count, sums, blocks, max_norm, norm.data());
}

template void clip_by_global_norm(TensorView<float>, double, TensorView<double>);
template void clip_by_global_norm(TensorView<double>, double, TensorView<double>);

}  // namespace orthornn::cuda
