#include "cuda/core/for_each.cuh"
#include "cuda/nn/tanh.hpp"
#include "orthornn/scalar/activation.hpp"

namespace orthornn::cuda {

template <class T>
void apply_tanh(TensorView<T> x) {
  T* entries = x.data();
  for_each(context(x.device()), x.size(),
           [=] __device__(Index i) { entries[i] = activate(Activation::tanh, entries[i], T{0}); });
}

template <class T>
void apply_tanh_backward(TensorView<const T> y, TensorView<T> d) {
  const T* value = y.data();
  T* gradient = d.data();
  for_each(context(d.device()), d.size(), [=] __device__(Index i) {
    gradient[i] = differentiate(Activation::tanh, value[i], std::int8_t{0}, gradient[i]);
  });
}

#define ORTHORNN_INSTANTIATE(T)               \
  template void apply_tanh<T>(TensorView<T>); \
  template void apply_tanh_backward<T>(TensorView<const T>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
