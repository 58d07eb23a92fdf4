#include "orthornn/orthogonal/scaled_cayley.hpp"

#include <fmt/format.h>

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/for_each.hpp"
#include "cuda/orthogonal/scaled_cayley.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/inverse.hpp"
#include "orthogonal/checks.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/skew_generator.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/orthogonal/parametrization.hpp"
#include "pointwise/matrices.hpp"

namespace orthornn {
namespace {

/// q = (2 k - I) D for k = (I + A)^-1, where the first `negative_signs` entries of D are -1; all [N, N].
/// Throws ValueError if q is not finite; on a GPU, at the next synchronization.
template <class T>
void cayley_transform_of(ConstTensorView<T> k, Index negative_signs, TensorView<T> q) {
  if constexpr (has_cuda_bodies) {
    if (q.device().is_cuda()) return cuda::cayley_transform_of<T>(k, negative_signs, q);
  }
  const Index n = q.shape()[0];
  const pointwise::CayleyTransform<T> transform{k.data(), q.data(), n, negative_signs};
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) transform(j, i);
  }
  if (!std::ranges::all_of(q, [](T value) { return std::isfinite(value); }))
    throw ValueError("skew_parameters are too large: their Cayley transform overflows");
}

/// result = x D.
template <class T>
void times_signs(ConstTensorView<T> x, Index negative_signs, TensorView<T> result) {
  const Index n = x.shape()[0];
  for_each_entry(result.device(), n, n, pointwise::TimesSigns<T>{x.data(), result.data(), n, negative_signs});
}

template <class T>
class CayleyMatrix final : public Parametrization<T> {
 public:
  CayleyMatrix(const ScaledCayley& options, Index n, Device device)
      : negative_signs_(options.negative_signs),
        init_(options.init),
        q_(Shape{n, n}, device),
        inverse_(q_.shape(), device),
        workspace_(q_.shape(), device),
        gradient_(q_.shape(), device),
        pivots_(Shape{n}, device) {}

  TensorView<const T> q() const { return q_; }

  // K = (I + A)^-1, and (I + A)^-1 (I - A) = 2 K - I.
  void prepare(ConstTensorView<T> x) override {
    // X holds rows of A in C order, so the column-major view is A^T; (I + A^T)^-1 = K^T.
    const auto k_transposed = columns_of(inverse_);
    skew_generator<T>(x, inverse_);
    add_to_diagonal(k_transposed, T{1});
    invert_general(k_transposed, columns_of(workspace_), pivots_.data());
    cayley_transform_of<T>(inverse_, negative_signs_, q_);
  }

  // dA = -2 K^T dQ D K^T, dX = dA - dA^T.
  void backward(const Factors<T>& gradient, TensorView<T> d_x) override {
    times_signs<T>(gradient.q, negative_signs_, gradient_);
    // In column-major views everything is transposed: dA^T = -2 K (dQ D)^T K.
    const auto k_transposed = columns_of(inverse_);
    gemm<T>(1, transposed(k_transposed), columns_of(gradient_), 0, columns_of(workspace_));
    gemm<T>(-2, columns_of(workspace_), transposed(k_transposed), 0, columns_of(gradient_));
    backward_of_skew_generator<T>(gradient_, d_x);
  }

  /// cuSOLVER does not promise that its decomposition can be recorded.
  bool recordable() const override { return false; }

  void draw(std::uint64_t seed, TensorView<T> x) const override {
    if (init_ == Init::normal) return draw_normal_skew_parameters(seed, x);
    const Index n = x.shape()[0];
    if (init_ == Init::haar) {
      // Q D with Q uniform is uniform; the transform reaches all orthogonal matrices except a set of measure
      // zero.
      Tensor<double> q(x.shape());
      initial_matrix(init_, seed, n, determinant(), q);
      return skew_parameters_of<T>(generator_of<double>(q), x);
    }
    // (I - A)(I + A)^-1 of a 2 x 2 block with entries +-tan(angle / 2) is the rotation by that angle.
    Tensor<double> rotations(x.shape());
    initial_matrix(init_, seed, n, 1, rotations);
    std::fill(x.begin(), x.end(), T{0});
    for (Index i = 0; i + 1 < n; i += 2) {
      const double half_angle = std::atan2(rotations(i + 1, i), rotations(i, i)) / 2;
      x(i, i + 1) = static_cast<T>(std::tan(half_angle) / 2);
      x(i + 1, i) = -x(i, i + 1);
    }
  }

  void find_parameters(ConstTensorView<T> q, TensorView<T> x) const override {
    check_orthogonal<T>(q);
    skew_parameters_of<T>(generator_of<T>(q), x);
  }

 private:
  int determinant() const { return negative_signs_ % 2 == 0 ? 1 : -1; }

  /// A = (I - QD)(I + QD)^-1. An eigenvalue that differs from -1 by at most a rounding of q counts as -1: its
  /// A would be noise.
  template <class Real>
  Eigen::MatrixXd generator_of(ConstTensorView<Real> q) const {
    const Index n = q.shape()[0];
    Eigen::MatrixXd plus = eigen(columns_of(q)).template cast<double>().transpose();
    for (Index j = 0; j < negative_signs_; ++j) plus.col(j) *= -1;
    const Eigen::MatrixXd minus = Eigen::MatrixXd::Identity(n, n) - plus;
    plus += Eigen::MatrixXd::Identity(n, n);
    Eigen::FullPivLU<Eigen::MatrixXd> decomposition(plus);
    decomposition.setThreshold(16 * std::sqrt(static_cast<double>(n)) * std::numeric_limits<Real>::epsilon());
    if (!decomposition.isInvertible()) {
      throw ValueError(fmt::format(
          "the Cayley transform with {} negative signs does not reach this matrix: Q D has an eigenvalue -1",
          negative_signs_));
    }
    return decomposition.solve(minus);
  }

  Index negative_signs_;
  Init init_;
  Tensor<T> q_;
  Tensor<T> inverse_;
  Tensor<T> workspace_;
  Tensor<T> gradient_;
  Tensor<std::int64_t> pivots_;
};

}  // namespace

Parameter ScaledCayley::parameter(Index hidden_size) const {
  if (negative_signs < 0 || negative_signs > hidden_size) {
    throw ValueError(fmt::format("{} negative signs with hidden size {}; expected 0 to {}", negative_signs,
                                 hidden_size, hidden_size));
  }
  return {"skew_parameters", {hidden_size, hidden_size}, ParameterKind::orthogonal, 0};
}

template <class T>
TransitionParts<T> ScaledCayley::parts(Index hidden_size, const Execution& execution) const {
  return dense_parts<T>(std::make_unique<CayleyMatrix<T>>(*this, hidden_size, execution.device));
}

template TransitionParts<float> ScaledCayley::parts<float>(Index, const Execution&) const;
template TransitionParts<double> ScaledCayley::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
