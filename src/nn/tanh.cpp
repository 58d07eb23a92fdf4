#include "nn/tanh.hpp"

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/nn/tanh.hpp"
#include "orthornn/scalar/activation.hpp"

namespace orthornn {

template <class T>
void apply_tanh(TensorView<T> x) {
  if constexpr (has_cuda_bodies) {
    if (x.device().is_cuda()) return cuda::apply_tanh<T>(x);
  }
  parallel_for(x.size(), 64, [&](Index first, Index last) {
    for (T* entry = x.data() + first; entry != x.data() + last; ++entry)
      *entry = activate(Activation::tanh, *entry, T{0});
  });
}

template <class T>
void apply_tanh_backward(TensorView<const T> y, TensorView<T> d) {
  if constexpr (has_cuda_bodies) {
    if (d.device().is_cuda()) return cuda::apply_tanh_backward<T>(y, d);
  }
  parallel_for(d.size(), 64, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      d.data()[i] = differentiate(Activation::tanh, y.data()[i], std::int8_t{0}, d.data()[i]);
  });
}

#define ORTHORNN_INSTANTIATE(T)               \
  template void apply_tanh<T>(TensorView<T>); \
  template void apply_tanh_backward<T>(TensorView<const T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
