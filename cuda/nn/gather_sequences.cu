#include "cuda/core/for_each_entry.cuh"
#include "cuda/nn/gather_sequences.hpp"

namespace orthornn::cuda {

template <class U>
void gather_sequences(TensorView<const U> from, TensorView<const std::int32_t> rows, TensorView<U> to) {
  const Index batch = from.shape()[1], count = to.shape()[1], size = to.shape()[2];
  const U* source = from.data();
  const std::int32_t* row_at = rows.data();
  U* result = to.data();
  for_each_entry(context(to.device()), size, to.shape()[0] * count, [=] __device__(Index n, Index column) {
    const Index l = column / count, r = column - l * count;
    result[column * size + n] = source[(l * batch + row_at[r]) * size + n];
  });
}

#define ORTHORNN_INSTANTIATE(U) \
  template void gather_sequences<U>(TensorView<const U>, TensorView<const std::int32_t>, TensorView<U>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
ORTHORNN_INSTANTIATE(std::int32_t)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
