#include "cuda/core/for_each.cuh"
#include "cuda/orthogonal/scaled_cayley.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn::cuda {

template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q) {
  Context& gpu = context(q.device());
  const Index n = q.shape()[0];
  const pointwise::CayleyTransform<T> transform{k.data(), q.data(), n, negative_signs};
  FaultWord* faults = gpu.faults();
  for_each(gpu, n * n, [=] __device__(Index e) {
    transform(e % n, e / n);
    if (!isfinite(transform.q[e])) report_fault(faults, Fault::skew_parameters_too_large, 0);
  });
}

template void cayley_transform_of<float>(ConstTensorView<float>, Index, TensorView<float>);
template void cayley_transform_of<double>(ConstTensorView<double>, Index, TensorView<double>);

}  // namespace orthornn::cuda
