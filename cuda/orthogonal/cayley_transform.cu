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

template void cayley_transform_of<float>(ConstTensorView<float>, Index, TensorView<float>);
template void cayley_transform_of<double>(ConstTensorView<double>, Index, TensorView<double>);

}  // namespace orthornn::cuda
