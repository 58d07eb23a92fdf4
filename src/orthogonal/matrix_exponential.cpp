#include "orthornn/orthogonal/matrix_exponential.hpp"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <numbers>

#include "linalg/eigen_map.hpp"
#include "linalg/matrix_exponential.hpp"
#include "orthogonal/checks.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthogonal/skew_generator.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {
namespace {

template <class T>
class ExponentialMatrix final : public Parametrization<T> {
 public:
  ExponentialMatrix(Init init, Index n, Device device)
      : init_(init),
        exponential_(n, device),
        q_(Shape{n, n}, device),
        generator_(q_.shape(), device),
        gradient_(q_.shape(), device) {}

  TensorView<const T> q() const { return q_; }

  void prepare(ConstTensorView<T> x) override {
    skew_generator<T>(x, generator_);
    // The column-major view is A^T, and exp(A^T) = exp(A)^T: again the column-major view of C order.
    exponential_.value(columns_of(generator_), columns_of(q_));
  }

  // dA = L(A^T, dQ), dX = dA - dA^T. Columns of the views are rows, so the derivative is taken at A^T of
  // dQ^T's transpose: L(A, dQ^T) = dA^T.
  void backward(const Factors<T>& gradient, TensorView<T> d_x) override {
    transpose_in_place<T>(generator_);
    exponential_.derivative(columns_of(generator_), columns_of(gradient.q), columns_of(gradient_));
    transpose_in_place<T>(generator_);
    backward_of_skew_generator<T>(gradient_, d_x);
  }

  /// The host reads the generator's norm, which decides the number of squarings.
  bool recordable() const override { return false; }

  void draw(std::uint64_t seed, TensorView<T> x) const override {
    if (init_ == Init::normal) return draw_normal_skew_parameters(seed, x);
    Tensor<double> q(x.shape());
    initial_matrix(init_, seed, x.shape()[0], 1, q);
    logarithm<double>(q, x);
  }

  void find_parameters(ConstTensorView<T> q, TensorView<T> x) const override {
    check_orthogonal<T>(q);
    logarithm<T>(q, x);
  }

 private:
  /// The principal logarithm of a rotation: its real Schur form is block diagonal, with an angle in each
  /// block.
  template <class Real>
  static void logarithm(ConstTensorView<Real> q, TensorView<T> x) {
    const Index n = x.shape()[0];
    const Eigen::MatrixXd matrix = eigen(columns_of(q)).template cast<double>().transpose();
    const Eigen::RealSchur<Eigen::MatrixXd> schur(matrix);
    const Eigen::MatrixXd& t = schur.matrixT();
    Eigen::MatrixXd angles = Eigen::MatrixXd::Zero(n, n);
    Index negative = -1;  // an eigenvalue -1 without its partner yet
    for (Index i = 0; i < n; ++i) {
      if (i + 1 < n && t(i + 1, i) != 0) {
        angles(i + 1, i) = std::atan2(t(i + 1, i) - t(i, i + 1), t(i, i) + t(i + 1, i + 1));
        angles(i, i + 1) = -angles(i + 1, i);
        ++i;
      } else if (t(i, i) < 0) {
        if (negative < 0) {
          negative = i;
        } else {
          angles(i, negative) = std::numbers::pi;
          angles(negative, i) = -std::numbers::pi;
          negative = -1;
        }
      }
    }
    if (negative >= 0) throw ValueError("the exponential reaches only determinant +1, the matrix has -1");
    skew_parameters_of<T>(schur.matrixU() * angles * schur.matrixU().transpose(), x);
  }

  Init init_;
  ExponentialOf<T> exponential_;
  Tensor<T> q_;
  Tensor<T> generator_;
  Tensor<T> gradient_;
};

}  // namespace

Parameter MatrixExponential::parameter(Index hidden_size) const {
  return {"skew_parameters", {hidden_size, hidden_size}, ParameterKind::orthogonal, 0};
}

template <class T>
TransitionParts<T> MatrixExponential::parts(Index hidden_size, const Execution& execution) const {
  return dense_parts<T>(std::make_unique<ExponentialMatrix<T>>(init, hidden_size, execution.device));
}

template TransitionParts<float> MatrixExponential::parts<float>(Index, const Execution&) const;
template TransitionParts<double> MatrixExponential::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
