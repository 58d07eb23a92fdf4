#include "orthogonal/skew_generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/for_each.hpp"
#include "cuda/orthogonal/skew_generator.hpp"
#include "linalg/eigen_map.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {

template <class T>
void skew_generator(ConstTensorView<T> x, TensorView<T> a) {
  if constexpr (has_cuda_bodies) {
    if (a.device().is_cuda()) return cuda::skew_generator<T>(x, a);
  }
  double largest = 0;
  for (Index i = 0; i < x.shape()[0]; ++i) {
    double sum = 0;
    for (Index j = 0; j < x.shape()[0]; ++j) {
      a(i, j) = x(i, j) - x(j, i);
      sum += std::abs(static_cast<double>(a(i, j)));
    }
    if (!std::isfinite(sum)) throw ValueError("skew_parameters hold a value that is not finite");
    largest = std::max(largest, sum);
  }
  if (largest * static_cast<double>(std::numeric_limits<T>::epsilon()) >= 0.01) {
    throw ValueError(
        fmt::format("skew_parameters are too large: X - X^T has the 1-norm {:.3g}, of whose transform "
                    "rounding leaves no correct digit",
                    largest));
  }
}

template <class T>
void transpose_in_place(TensorView<T> a) {
  const Index n = a.shape()[0];
  for_each_entry(a.device(), n, n, pointwise::TransposeInPlace<T>{a.data(), n});
}

template <class T>
void backward_of_skew_generator(ConstTensorView<T> d_a, TensorView<T> d_x) {
  const Index n = d_a.shape()[0];
  for_each_entry(d_x.device(), n, n, pointwise::SkewGradient<T>{d_a.data(), d_x.data(), n});
}

template <class T>
void skew_parameters_of(const Eigen::MatrixXd& a, TensorView<T> x) {
  // The column-major view of X is X^T.
  eigen(columns_of(x)) = ((a.transpose() - a) / 4).cast<T>();
}

template <class T>
void draw_normal_skew_parameters(std::uint64_t seed, TensorView<T> x) {
  RandomStream random(seed, RandomPurpose::initialization);
  const double root = std::sqrt(static_cast<double>(x.shape()[0]));
  for (T& value : x) value = static_cast<T>(random.normal() / root);
}

#define ORTHORNN_INSTANTIATE(T)                                                   \
  template void skew_generator<T>(ConstTensorView<T>, TensorView<T>);             \
  template void transpose_in_place<T>(TensorView<T>);                             \
  template void backward_of_skew_generator<T>(ConstTensorView<T>, TensorView<T>); \
  template void skew_parameters_of<T>(const Eigen::MatrixXd&, TensorView<T>);     \
  template void draw_normal_skew_parameters<T>(std::uint64_t, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
