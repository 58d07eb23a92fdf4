#include <algorithm>

#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/short_convolution.hpp"
#include "pointwise/numbers.hpp"

namespace orthornn::cuda {
namespace {

constexpr unsigned threads = 128;
// Rows that a thread of filter_gradient adds at least, and the most ranges of rows: the sums of so many
// ranges are small beside what is read for them.
constexpr Index fewest_rows = 64;
constexpr Index most_ranges = 256;

/// Of a sequence, also where a wrong length was given: that is reported elsewhere.
__device__ __forceinline__ Index live_within(const std::int32_t* lengths, Index length, Index b) {
  const Index live = pointwise::live_steps(lengths, length, b);
  return live < 0 ? 0 : live > length ? length : live;
}

/// Block (i, j, k): channels of range i, rows of range j, filter entry k. partial [ranges, W, C].
template <class T>
__global__ void partial_filter_gradient(const T* rows, const T* d_z, Index width, Index channels, Index batch,
                                        Index count, Index rows_of_range, T* partial) {
  const Index c = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  const Index first = blockIdx.y * rows_of_range;
  const Index last = first + rows_of_range < count ? first + rows_of_range : count;
  const T* x = rows + blockIdx.z * batch * width + c;
  T sum = 0;
#pragma unroll 4
  for (Index r = first; r < last; ++r) sum += d_z[r * channels + c] * x[r * width];
  partial[(static_cast<Index>(blockIdx.y) * gridDim.z + blockIdx.z) * channels + c] = sum;
}

}  // namespace

template <class T>
void convolution_backward(TensorView<const T> d_z, TensorView<const T> filters,
                          TensorView<const std::int32_t> lengths, TensorView<const T> d_last,
                          TensorView<T> d_rows, TensorView<T> d_start) {
  const Index length = d_z.shape()[0], batch = d_z.shape()[1], channels = d_z.shape()[2];
  const Index window = filters.shape()[0], before = window - 1, width = d_rows.shape()[2];
  const std::int32_t* live_of = lengths.empty() ? nullptr : lengths.data();
  const T* g = d_z.data();
  const T* f = filters.data();
  const T* from_last = d_last.empty() ? nullptr : d_last.data();
  T* to_rows = d_rows.data();
  T* to_start = d_start.empty() ? nullptr : d_start.data();
  for_each_entry(context(d_z.device()), channels, (before + length) * batch,
                 [=] __device__(Index c, Index row) {
                   const Index s = row / batch, b = row % batch;  // input s is that of step s - before
                   if (s < before && to_start == nullptr) return;
                   const Index live = live_within(live_of, length, b);
                   T sum = 0;
                   if (from_last != nullptr && s >= live && s < live + before)
                     sum = from_last[(b * before + s - live) * channels + c];
                   for (Index i = 0; i < window; ++i) {
                     if (s >= i && s - i < length)
                       sum += f[i * channels + c] * g[(row - i * batch) * channels + c];
                   }
                   if (s < before) {
                     to_start[(b * before + s) * channels + c] = sum;
                   } else {
                     to_rows[(row - before * batch) * width + c] = sum;
                   }
                 });
}

template <class T>
void filter_gradient(TensorView<const T> rows, TensorView<const T> d_z, TensorView<T> d_filters,
                     Saved& scratch) {
  const Context& gpu = context(rows.device());
  const Index batch = d_z.shape()[1], count = d_z.shape()[0] * batch;
  const Index window = d_filters.shape()[0], channels = d_filters.shape()[1];
  const Index ranges = std::clamp<Index>(count / fewest_rows, 1, most_ranges);
  const Saved::Scope scope(scratch);
  const TensorView<T> partial = scratch.push<T>({ranges, window, channels});
  launch(gpu, partial_filter_gradient<T>,
         {.grid = dim3(blocks_for(channels, threads), static_cast<unsigned>(ranges),
                       static_cast<unsigned>(window)),
          .block = threads},
         rows.data(), d_z.data(), rows.shape()[2], channels, batch, count, (count + ranges - 1) / ranges,
         partial.data());
  const T* from = partial.data();
  T* to = d_filters.data();
  for_each_entry(gpu, channels, window, [=] __device__(Index c, Index i) {
    T sum = 0;
    for (Index k = 0; k < ranges; ++k) sum += from[(k * window + i) * channels + c];
    to[i * channels + c] = sum;
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void convolution_backward<T>(TensorView<const T>, TensorView<const T>,                           \
                                        TensorView<const std::int32_t>, TensorView<const T>, TensorView<T>, \
                                        TensorView<T>);                                                     \
  template void filter_gradient<T>(TensorView<const T>, TensorView<const T>, TensorView<T>, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
