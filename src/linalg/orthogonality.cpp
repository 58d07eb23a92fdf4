#include "orthornn/linalg/orthogonality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "cuda/linalg/orthogonality.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

template <class T>
double orthogonality_error(TensorView<const T> q) {
  if (q.shape().rank() != 2 || q.shape()[0] < q.shape()[1]) {
    throw ShapeError(fmt::format("q has shape {}, expected [N, M] with N >= M", to_string(q.shape())));
  }
  if constexpr (has_cuda_bodies) {
    if (q.device().is_cuda()) return cuda::orthogonality_error<T>(q);
  }
  const Index n = q.shape()[0];
  const Index m = q.shape()[1];
  Tensor<double> exact(Shape{n, m});
  std::copy(q.begin(), q.end(), exact.begin());
  Tensor<double> gram(Shape{m, m});
  gemm<double>(1, columns_of(exact), transposed(columns_of(exact)), 0, columns_of(gram));
  double error = 0;
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < m; ++j) {
      const double difference = std::abs(gram(i, j) - (i == j ? 1.0 : 0.0));
      // std::max would drop a NaN.
      if (std::isnan(difference)) return difference;
      error = std::max(error, difference);
    }
  }
  return error;
}

template double orthogonality_error<float>(TensorView<const float>);
template double orthogonality_error<double>(TensorView<const double>);

}  // namespace orthornn
