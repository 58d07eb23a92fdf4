#include "nn/last_outputs.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/nn/last_outputs.hpp"
#include "layers/live_steps.hpp"

namespace orthornn {
namespace {

/// -1 for a sequence without a step.
Index last_step(TensorView<const std::int32_t> lengths, Index length, Index b) {
  return live_steps(lengths, length, b) - 1;
}

}  // namespace

template <class T>
void gather_last(TensorView<const T> outputs, TensorView<const std::int32_t> lengths, TensorView<T> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::gather_last<T>(outputs, lengths, to);
  }
  for (Index b = 0; b < to.shape()[0]; ++b) {
    const TensorView<T> row = to[b];
    const Index step = last_step(lengths, outputs.shape()[0], b);
    if (step < 0) {
      std::ranges::fill(row, T{0});
    } else {
      std::ranges::copy(outputs[step][b], row.begin());
    }
  }
}

template <class T>
void scatter_last(TensorView<const T> from, TensorView<const std::int32_t> lengths, TensorView<T> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::scatter_last<T>(from, lengths, to);
  }
  std::ranges::fill(to, T{0});
  for (Index b = 0; b < from.shape()[0]; ++b) {
    const Index step = last_step(lengths, to.shape()[0], b);
    if (step >= 0) std::ranges::copy(from[b], to[step][b].begin());
  }
}

#define ORTHORNN_INSTANTIATE(T)                                                                     \
  template void gather_last<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>); \
  template void scatter_last<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
