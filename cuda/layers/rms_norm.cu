#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/layers/rms_norm.hpp"

namespace orthornn::cuda {
namespace {

// A warp takes one vector after the other, so a vector's sum needs no barrier.
constexpr unsigned threads = 256;
constexpr unsigned vectors_at_once = threads / warp_size;
constexpr Index blocks_per_multiprocessor = 8;

template <class T>
__global__ void forward_kernel(const T* x, const T* gain, T epsilon, Index count, Index size, T* scales,
                               T* y) {
  const Index stride = static_cast<Index>(gridDim.x) * vectors_at_once;
  for (Index j = grid_thread() / warp_size; j < count; j += stride) {
    const Index first = j * size;
    T squares = 0;
    for (Index n = threadIdx.x % warp_size; n < size; n += warp_size) squares += x[first + n] * x[first + n];
    const T scale = T{1} / sqrt(warp_sum(squares) / static_cast<T>(size) + epsilon);
    for (Index n = threadIdx.x % warp_size; n < size; n += warp_size)
      y[first + n] = gain[n] * (x[first + n] * scale);
    if (threadIdx.x % warp_size == 0) scales[j] = scale;
  }
}

template <class T>
__global__ void backward_kernel(const T* x, const T* gain, const T* scales, Index count, Index size, T* d_y,
                                T* d_x, bool adds) {
  const Index stride = static_cast<Index>(gridDim.x) * vectors_at_once;
  for (Index j = grid_thread() / warp_size; j < count; j += stride) {
    const Index first = j * size;
    const T scale = scales[j];
    T product = 0;
    for (Index n = threadIdx.x % warp_size; n < size; n += warp_size)
      product += gain[n] * d_y[first + n] * (x[first + n] * scale);
    const T mean = warp_sum(product) / static_cast<T>(size);
    for (Index n = threadIdx.x % warp_size; n < size; n += warp_size) {
      const T unit = x[first + n] * scale;
      const T d = d_y[first + n];
      d_y[first + n] = d * unit;
      if (d_x == nullptr) continue;
      const T gradient = scale * (gain[n] * d - unit * mean);
      d_x[first + n] = adds ? d_x[first + n] + gradient : gradient;
    }
  }
}

LaunchShape shape_for(const Context& gpu, Index count) {
  const Index most = gpu.multiprocessors() * blocks_per_multiprocessor;
  return {.grid = static_cast<unsigned>(std::min<Index>(blocks_for(count, vectors_at_once), most)),
          .block = threads};
}

}  // namespace

template <class T>
void rms_norm_forward(TensorView<const T> x, TensorView<const T> gain, T epsilon, TensorView<T> scales,
                      TensorView<T> y) {
  const Context& gpu = context(x.device());
  const Index size = gain.size(), count = scales.size();
  launch(gpu, forward_kernel<T>, shape_for(gpu, count), x.data(), gain.data(), epsilon, count, size,
         scales.data(), y.data());
}

template <class T>
void rms_norm_backward(TensorView<const T> x, TensorView<const T> gain, TensorView<const T> scales,
                       TensorView<T> d_y, TensorView<T> d_x, bool adds) {
  const Context& gpu = context(x.device());
  const Index size = gain.size(), count = scales.size();
  launch(gpu, backward_kernel<T>, shape_for(gpu, count), x.data(), gain.data(), scales.data(), count, size,
         d_y.data(), d_x.data(), adds);
}

#define ORTHORNN_INSTANTIATE(T)                                                                     \
  template void rms_norm_forward<T>(TensorView<const T>, TensorView<const T>, T, TensorView<T>,     \
                                    TensorView<T>);                                                 \
  template void rms_norm_backward<T>(TensorView<const T>, TensorView<const T>, TensorView<const T>, \
                                     TensorView<T>, TensorView<T>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
