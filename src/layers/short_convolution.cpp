#include "layers/short_convolution.hpp"

#include <algorithm>

#include "core/for_each.hpp"
#include "core/live_steps.hpp"
#include "core/parallel.hpp"
#include "cuda/layers/short_convolution.hpp"
#include "pointwise/sequences.hpp"

namespace orthornn {
namespace {

/// The M numbers of one step of one sequence in rows [.., B, M].
template <class T>
T* row_of(TensorView<T> rows, Index step, Index b) {
  return rows.data() + (step * rows.shape()[1] + b) * rows.shape()[2];
}

/// Step s of the history of one sequence in states [B, W - 1, C].
template <class T>
T* state_of(TensorView<T> states, Index b, Index s) {
  return states.data() + (b * states.shape()[1] + s) * states.shape()[2];
}

}  // namespace

template <class T>
void load_history(TensorView<const T> start, TensorView<T> rows, Index window, Index channels) {
  const Index before = window - 1, batch = rows.shape()[1];
  for_each_entry(rows.device(), channels, before * batch,
                 pointwise::LoadHistory<T>{.from = start.data(),
                                           .rows = rows.data(),
                                           .before = before,
                                           .batch = batch,
                                           .channels = channels,
                                           .width = rows.shape()[2]});
}

template <class T>
void save_history(TensorView<const T> rows, TensorView<const std::int32_t> lengths, TensorView<T> last) {
  const Index batch = last.shape()[0], before = last.shape()[1], channels = last.shape()[2];
  for_each_entry(rows.device(), channels, batch * before,
                 pointwise::SaveHistory<T>{.rows = rows.data(),
                                           .lengths = or_null(lengths),
                                           .to = last.data(),
                                           .length = rows.shape()[0] - before,
                                           .before = before,
                                           .batch = batch,
                                           .channels = channels,
                                           .width = rows.shape()[2]});
}

template <class T>
void convolution_backward(TensorView<const T> d_z, TensorView<const T> filters,
                          TensorView<const std::int32_t> lengths, TensorView<const T> d_last,
                          TensorView<T> d_rows, TensorView<T> d_start) {
  if constexpr (has_cuda_bodies) {
    if (d_z.device().is_cuda())
      return cuda::convolution_backward<T>(d_z, filters, lengths, d_last, d_rows, d_start);
  }
  const Index length = d_z.shape()[0], batch = d_z.shape()[1], channels = d_z.shape()[2];
  const Index window = filters.shape()[0], before = window - 1;
  parallel_for((before + length) * batch, row_grain, [&](Index first, Index last) {
    for (Index r = first; r < last; ++r) {
      const Index s = r / batch, b = r % batch;  // input s is that of step s - before
      if (s < before && d_start.empty()) continue;
      T* d = s < before ? state_of(d_start, b, s) : row_of(d_rows, s - before, b);
      const Index live = live_steps(lengths, length, b);
      if (!d_last.empty() && s >= live && s < live + before) {
        std::copy_n(state_of(d_last, b, s - live), channels, d);
      } else {
        std::fill_n(d, channels, T{0});
      }
      for (Index i = 0; i < window; ++i) {
        if (s < i || s - i >= length) continue;
        const T* filter = filters.data() + i * channels;
        const T* g = row_of(d_z, s - i, b);
        for (Index c = 0; c < channels; ++c) d[c] += filter[c] * g[c];
      }
    }
  });
}

template <class T>
void filter_gradient(TensorView<const T> rows, TensorView<const T> d_z, TensorView<T> d_filters,
                     Saved& scratch) {
  if constexpr (has_cuda_bodies) {
    if (rows.device().is_cuda()) return cuda::filter_gradient<T>(rows, d_z, d_filters, scratch);
  }
  const Index length = d_z.shape()[0], batch = d_z.shape()[1];
  const Index window = d_filters.shape()[0], channels = d_filters.shape()[1];
  const Saved::Scope scope(scratch);
  const TensorView<double> sums = scratch.push<double>(d_filters.shape());
  // Threads share the channels, so every sum keeps its order. In double, as in sum_rows.
  parallel_for(channels, 16, [&](Index first, Index last) {
    for (Index i = 0; i < window; ++i) {
      double* sum = sums.data() + i * channels;
      std::fill(sum + first, sum + last, 0.0);
      for (Index t = 0; t < length; ++t) {
        for (Index b = 0; b < batch; ++b) {
          const T* g = row_of(d_z, t, b);
          const T* x = row_of(rows, t + i, b);
          for (Index c = first; c < last; ++c) sum[c] += static_cast<double>(g[c] * x[c]);
        }
      }
      for (Index c = first; c < last; ++c) d_filters(i, c) = static_cast<T>(sum[c]);
    }
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void load_history<T>(TensorView<const T>, TensorView<T>, Index, Index);                          \
  template void save_history<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>);        \
  template void convolution_backward<T>(TensorView<const T>, TensorView<const T>,                           \
                                        TensorView<const std::int32_t>, TensorView<const T>, TensorView<T>, \
                                        TensorView<T>);                                                     \
  template void filter_gradient<T>(TensorView<const T>, TensorView<const T>, TensorView<T>, Saved&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
