#include "orthornn/orthogonal/scaled_cayley.hpp"

#include <fmt/format.h>

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>

#include "linalg/eigen_map.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/lu.hpp"
#include "orthogonal/cayley_transform.hpp"
#include "orthogonal/checks.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/skew_generator.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {
namespace {

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
    const Index n = x.shape()[0];
    std::fill(x.begin(), x.end(), T{0});
    RandomStream random(seed, RandomPurpose::initialization);
    if (init_ == Init::normal) {
      for (T& value : x) value = static_cast<T>(random.normal() / std::sqrt(static_cast<double>(n)));
      return;
    }
    if (init_ == Init::haar) {
      // Q D with Q uniform is uniform; the transform reaches all orthogonal matrices except a set of measure
      // zero.
      Tensor<double> q(x.shape());
      initial_matrix(init_, seed, n, determinant(), q);
      return skew_parameters_of<T>(columns_of(generator_of(q, std::numeric_limits<double>::epsilon())), x);
    }
    // (I - A)(I + A)^-1 of a 2 x 2 block with entries +-tan(angle / 2) is the rotation by that angle.
    Tensor<double> rotations(x.shape());
    initial_matrix(init_, seed, n, 1, rotations);
    for (Index i = 0; i + 1 < n; i += 2) {
      const double half_angle = std::atan2(rotations(i + 1, i), rotations(i, i)) / 2;
      x(i, i + 1) = static_cast<T>(std::tan(half_angle) / 2);
      x(i + 1, i) = -x(i, i + 1);
    }
  }

  void find_parameters(ConstTensorView<T> q, TensorView<T> x) const override {
    check_orthogonal<T>(q);
    Tensor<double> exact(q.shape());
    std::copy(q.begin(), q.end(), exact.begin());
    skew_parameters_of<T>(columns_of(generator_of(exact, std::numeric_limits<T>::epsilon())), x);
  }

 private:
  int determinant() const { return negative_signs_ % 2 == 0 ? 1 : -1; }

  /// A = (I - QD)(I + QD)^-1 as a column-major matrix. An eigenvalue that differs from -1 by at most a
  /// rounding of q by `epsilon` counts as -1: its A would be noise.
  Tensor<double> generator_of(const Tensor<double>& q, double epsilon) const {
    const Index n = q.shape()[0];
    Eigen::MatrixXd plus = eigen(columns_of(q)).transpose();
    for (Index j = 0; j < negative_signs_; ++j) plus.col(j) *= -1;
    const Eigen::MatrixXd minus = Eigen::MatrixXd::Identity(n, n) - plus;
    plus += Eigen::MatrixXd::Identity(n, n);
    Eigen::FullPivLU<Eigen::MatrixXd> decomposition(plus);
    decomposition.setThreshold(16 * std::sqrt(static_cast<double>(n)) * epsilon);
    if (!decomposition.isInvertible()) {
      throw ValueError(fmt::format(
          "the Cayley transform with {} negative signs does not reach this matrix: Q D has an eigenvalue -1",
          negative_signs_));
    }
    Tensor<double> a(Shape{n, n});
    eigen(columns_of(a)) = decomposition.solve(minus);
    return a;
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
