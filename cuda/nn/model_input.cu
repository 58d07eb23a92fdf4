#include "cuda/core/for_each_entry.cuh"
#include "cuda/nn/model_input.hpp"

namespace orthornn::cuda {

template <class T>
void copy_features(TensorView<const float> features, TensorView<const std::int32_t> lengths,
                   TensorView<T> x) {
  const Index batch = x.shape()[1];
  const Index size = x.shape()[2];
  const float* from = features.data();
  // As on the CPU, the shape of the lengths is checked later.
  const std::int32_t* live = lengths.size() == batch ? lengths.data() : nullptr;
  T* to = x.data();
  for_each_entry(context(x.device()), batch * size, x.shape()[0], [=] __device__(Index row, Index t) {
    const Index i = t * batch * size + row;
    const bool padding = live != nullptr && t >= live[row / size];
    to[i] = padding ? T{0} : static_cast<T>(from[i]);
  });
}

#define ORTHORNN_INSTANTIATE(T) \
  template void copy_features<T>(TensorView<const float>, TensorView<const std::int32_t>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
