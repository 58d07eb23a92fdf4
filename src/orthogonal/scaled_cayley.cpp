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
#include "orthogonal/check_orthogonal.hpp"
#include "orthogonal/check_tensor.hpp"
#include "orthogonal/dense_transition.hpp"
#include "orthogonal/factories.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/skew_generator.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

template <class T>
class CayleyMatrix final : public DenseTransition<T> {
 public:
  CayleyMatrix(const ScaledCayley& options, Index n, const Execution& execution)
      : DenseTransition<T>(parameter_of(options, n), execution),
        negative_signs_(options.negative_signs),
        init_(options.init),
        inverse_(Shape{n, n}, execution.device),
        workspace_(Shape{n, n}, execution.device),
        gradient_(Shape{n, n}, execution.device),
        pivots_(Shape{n}, execution.device) {}

  // K = (I + A)^-1, and (I + A)^-1 (I - A) = 2 K - I.
  void prepare(ConstTensorView<T> x) override {
    check_tensor("skew_parameters", x, this->parameter_shape(), this->device());
    // X holds rows of A in C order, so the column-major view is A^T; (I + A^T)^-1 = K^T.
    const auto k_transposed = columns_of(inverse_);
    this->set_prepared(false);
    skew_generator<T>(x, inverse_);
    add_to_diagonal(k_transposed, T{1});
    invert_general(k_transposed, columns_of(workspace_), pivots_.data());
    cayley_transform_of<T>(inverse_, negative_signs_, this->matrix_.q());
    this->matrix_.pack();
    this->set_prepared(true);
  }

  // dA = -2 K^T dQ D K^T, dX = dA - dA^T.
  void backward(ConstTensorView<T> d_q, TensorView<T> d_x) override {
    check_tensor("d_q", d_q, this->parameter_shape(), this->device());
    check_tensor("d_skew_parameters", d_x, this->parameter_shape(), this->device());
    times_signs<T>(d_q, negative_signs_, gradient_);
    // In column-major views everything is transposed: dA^T = -2 K (dQ D)^T K.
    const auto k_transposed = columns_of(inverse_);
    gemm<T>(1, transposed(k_transposed), columns_of(gradient_), 0, columns_of(workspace_));
    gemm<T>(-2, columns_of(workspace_), transposed(k_transposed), 0, columns_of(gradient_));
    backward_of_skew_generator<T>(gradient_, d_x);
  }

  double flops_of_prepare() const override {
    const double n = static_cast<double>(this->hidden_size());
    return 2 * n * n * n + 4 * n * n * n;
  }
  /// cuSOLVER does not promise that its decomposition can be recorded.
  bool recordable() const override { return false; }

 protected:
  void draw(std::uint64_t seed, TensorView<T> x) const override {
    const Index n = this->hidden_size();
    std::fill(x.begin(), x.end(), T{0});
    RandomStream random(seed, RandomPurpose::initialization);
    if (init_ == Init::normal) {
      for (T& value : x) value = static_cast<T>(random.normal() / std::sqrt(static_cast<double>(n)));
      return;
    }
    if (init_ == Init::haar) {
      // Q D with Q uniform is uniform; the transform reaches all orthogonal matrices except a set of measure
      // zero.
      Tensor<double> q(this->parameter_shape());
      initial_matrix(init_, seed, n, determinant(), q);
      return skew_parameters_of<T>(columns_of(generator_of(q, std::numeric_limits<double>::epsilon())), x);
    }
    // (I - A)(I + A)^-1 of a 2 x 2 block with entries +-tan(angle / 2) is the rotation by that angle.
    Tensor<double> rotations(this->parameter_shape());
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
    const Index n = this->hidden_size();
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
  Tensor<T> inverse_;
  Tensor<T> workspace_;
  Tensor<T> gradient_;
  Tensor<std::int64_t> pivots_;
};

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make(const ScaledCayley& options, Index hidden_size,
                                    const Execution& execution) {
  return std::make_unique<CayleyMatrix<T>>(options, hidden_size, execution);
}

template std::unique_ptr<Transition<float>> make<float>(const ScaledCayley&, Index, const Execution&);
template std::unique_ptr<Transition<double>> make<double>(const ScaledCayley&, Index, const Execution&);

}  // namespace orthornn
