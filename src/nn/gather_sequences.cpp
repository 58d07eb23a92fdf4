#include "nn/gather_sequences.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "cuda/nn/gather_sequences.hpp"

namespace orthornn {

template <class U>
void gather_sequences(TensorView<const U> from, TensorView<const std::int32_t> rows, TensorView<U> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::gather_sequences<U>(from, rows, to);
  }
  for (Index l = 0; l < to.shape()[0]; ++l) {
    for (Index r = 0; r < rows.size(); ++r) std::ranges::copy(from[l][rows(r)], to[l][r].begin());
  }
}

#define ORTHORNN_INSTANTIATE(U) \
  template void gather_sequences<U>(TensorView<const U>, TensorView<const std::int32_t>, TensorView<U>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
ORTHORNN_INSTANTIATE(std::int32_t)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
