#include "cuda/core/for_each.cuh"
#include "cuda/orthogonal/cayley_transform.hpp"

namespace orthornn::cuda {

template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q) {
  Context& gpu = context(q.device());
  const Index n = q.shape()[0];
  const T* from = k.data();
  T* to = q.data();
  FaultWord* faults = gpu.faults();
  for_each(gpu, n * n, [=] __device__(Index e) {
    const Index i = e / n, j = e % n;
    const T value = 2 * from[e] - (i == j ? T{1} : T{0});
    to[e] = j < negative_signs ? -value : value;
    if (!isfinite(value)) report_fault(faults, Fault::skew_parameters_too_large, 0);
  });
}

template <class T>
void times_signs(ConstTensorView<T> x, Index negative_signs, TensorView<T> result) {
  const Index n = x.shape()[0];
  const T* from = x.data();
  T* to = result.data();
  for_each(context(result.device()), n * n,
           [=] __device__(Index e) { to[e] = e % n < negative_signs ? -from[e] : from[e]; });
}

#define ORTHORNN_INSTANTIATE(T)                                                   \
  template void cayley_transform_of<T>(ConstTensorView<T>, Index, TensorView<T>); \
  template void times_signs<T>(ConstTensorView<T>, Index, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
