#include "cuda/core/for_each_entry.cuh"
#include "cuda/nn/last_outputs.hpp"

namespace orthornn::cuda {

template <class T>
void gather_last(TensorView<const T> outputs, TensorView<const std::int32_t> lengths, TensorView<T> to) {
  const Index length = outputs.shape()[0], batch = to.shape()[0], size = to.shape()[1];
  const T* from = outputs.data();
  const std::int32_t* live = lengths.empty() ? nullptr : lengths.data();
  T* result = to.data();
  for_each_entry(context(to.device()), size, batch, [=] __device__(Index n, Index b) {
    const Index step = (live == nullptr ? length : Index{live[b]}) - 1;
    result[b * size + n] = step < 0 || step >= length ? T{0} : from[(step * batch + b) * size + n];
  });
}

template <class T>
void scatter_last(TensorView<const T> from, TensorView<const std::int32_t> lengths, TensorView<T> to) {
  const Index length = to.shape()[0], batch = to.shape()[1], size = to.shape()[2];
  const T* source = from.data();
  const std::int32_t* live = lengths.empty() ? nullptr : lengths.data();
  T* result = to.data();
  for_each_entry(context(to.device()), batch * size, length, [=] __device__(Index row, Index t) {
    const Index step = (live == nullptr ? length : Index{live[row / size]}) - 1;
    result[t * batch * size + row] = t == step ? source[row] : T{0};
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                     \
  template void gather_last<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>); \
  template void scatter_last<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
