#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/optim/gradient_scale.hpp"
#include "orthornn/optim/gradient_scale.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;
// Eight for each multiprocessor of an H200, and four sums for each thread of the second kernel. With 256
// blocks 23 million gradients took 49 us, more than twice what their bytes need.
constexpr Index max_blocks = 1024;

template <class T>
__global__ void sum_squares(const T* gradients, Index count, double* sums) {
  __shared__ double partial[threads / warp_size];
  double sum = 0;
#pragma unroll 4
  for (Index i = grid_thread(); i < count; i += static_cast<Index>(gridDim.x) * blockDim.x) {
    const double gradient = static_cast<double>(gradients[i]);
    sum += gradient * gradient;
  }
  sum = block_sum(sum, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void find_scale(const double* sums, Index sum_count, const double* loss, double max_norm,
                           double* scale) {
  __shared__ double partial[threads / warp_size];
  double part = 0;
  for (Index i = threadIdx.x; i < sum_count; i += threads) part += sums[i];
  const double norm = sqrt(block_sum(part, partial));
  if (threadIdx.x > 0) return;
  const GradientScale found = scale_of(norm, loss[1], max_norm);
  scale[0] = found.norm;
  scale[1] = found.factor;
}

}  // namespace

template <class T>
void gradient_scale(TensorView<const T> gradients, TensorView<const double> loss, double max_norm,
                    TensorView<double> scale) {
  Context& gpu = context(gradients.device());
  const Index count = gradients.size();
  const Index blocks = std::clamp<Index>(blocks_for(count, threads), 1, max_blocks);
  double* sums = gpu.scratch<double>(static_cast<std::size_t>(blocks));
  launch(gpu, sum_squares<T>, {.grid = static_cast<unsigned>(blocks), .block = threads}, gradients.data(),
         count, sums);
  launch(gpu, find_scale, {.grid = 1, .block = threads}, sums, blocks, loss.data(), max_norm, scale.data());
}

template void gradient_scale(TensorView<const float>, TensorView<const double>, double, TensorView<double>);
template void gradient_scale(TensorView<const double>, TensorView<const double>, double, TensorView<double>);

}  // namespace orthornn::cuda
