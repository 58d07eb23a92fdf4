#include "orthogonal/cayley_transform.hpp"

#include <cmath>

#include "core/for_each.hpp"
#include "cuda/orthogonal/cayley_transform.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {

template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q) {
  if constexpr (has_cuda_bodies) {
    if (q.device().is_cuda()) return cuda::cayley_transform_of<T>(k, negative_signs, q);
  }
  const Index n = q.shape()[0];
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const T value = 2 * k(i, j) - (i == j ? T{1} : T{0});
      q(i, j) = j < negative_signs ? -value : value;
    }
  }
  for (const T value : q) {
    if (!std::isfinite(value))
      throw ValueError("skew_parameters are too large: their Cayley transform overflows");
  }
}

template <class T>
void times_signs(ConstTensorView<T> x, Index negative_signs, TensorView<T> result) {
  const Index n = x.shape()[0];
  for_each_entry(result.device(), n, n, pointwise::TimesSigns<T>{x.data(), result.data(), n, negative_signs});
}

#define ORTHORNN_INSTANTIATE(T)                                                   \
  template void cayley_transform_of<T>(ConstTensorView<T>, Index, TensorView<T>); \
  template void times_signs<T>(ConstTensorView<T>, Index, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
