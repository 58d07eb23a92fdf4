#include <limits>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/nn/log_softmax.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 256;

/// A block for each row.
template <class T>
__global__ void log_softmax_kernel(T* outputs, Index class_count) {
  __shared__ T largest_partial[threads / warp_size];
  __shared__ double total_partial[threads / warp_size];
  T* y = outputs + static_cast<Index>(blockIdx.x) * class_count;
  T largest = -std::numeric_limits<T>::infinity();
  for (Index c = threadIdx.x; c < class_count; c += threads) largest = largest < y[c] ? y[c] : largest;
  largest = block_max(largest, largest_partial);
  double total = 0;
  for (Index c = threadIdx.x; c < class_count; c += threads)
    total += static_cast<double>(exp(y[c] - largest));
  const T normalizer = static_cast<T>(log(block_sum(total, total_partial)));
  for (Index c = threadIdx.x; c < class_count; c += threads) y[c] = y[c] - largest - normalizer;
}

}  // namespace

template <class T>
void log_softmax(TensorView<T> y) {
  if (y.empty()) return;
  launch(context(y.device()), log_softmax_kernel<T>,
         {.grid = static_cast<unsigned>(y.shape()[0]), .block = threads}, y.data(), y.shape()[1]);
}

template void log_softmax<float>(TensorView<float>);
template void log_softmax<double>(TensorView<double>);

}  // namespace orthornn::cuda
