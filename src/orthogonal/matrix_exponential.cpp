#include "linalg/matrix_exponential.hpp"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <numbers>

#include "linalg/eigen_map.hpp"
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
class ExponentialMatrix final : public DenseTransition<T> {
 public:
  ExponentialMatrix(const MatrixExponential& options, Index n, const Execution& execution)
      : DenseTransition<T>(parameter_of(options, n), execution),
        init_(options.init),
        exponential_(n, execution.device),
        generator_(Shape{n, n}, execution.device),
        gradient_(Shape{n, n}, execution.device) {}

  void prepare(ConstTensorView<T> x) override {
    check_tensor("skew_parameters", x, this->parameter_shape(), this->device());
    this->set_prepared(false);
    skew_generator<T>(x, generator_);
    // The column-major view is A^T, and exp(A^T) = exp(A)^T: again the column-major view of C order.
    exponential_.value(columns_of(generator_), this->matrix_.transpose());
    this->matrix_.pack();
    this->set_prepared(true);
  }

  // dA = L(A^T, dQ), dX = dA - dA^T. Columns of the views are rows, so the derivative is taken at A^T of
  // dQ^T's transpose: L(A, dQ^T) = dA^T.
  void backward(ConstTensorView<T> d_q, TensorView<T> d_x) override {
    check_tensor("d_q", d_q, this->parameter_shape(), this->device());
    check_tensor("d_skew_parameters", d_x, this->parameter_shape(), this->device());
    transpose_in_place<T>(generator_);
    exponential_.derivative(columns_of(generator_), columns_of(d_q), columns_of(gradient_));
    transpose_in_place<T>(generator_);
    backward_of_skew_generator<T>(gradient_, d_x);
  }

  /// Six products for the polynomial, and about four squarings for generators of norm ten; three times that
  /// for the derivative.
  double flops_of_prepare() const override {
    return 4 * 10 * 2 * std::pow(static_cast<double>(this->hidden_size()), 3);
  }
  /// The host reads the generator's norm, which decides the number of squarings.
  bool recordable() const override { return false; }

 protected:
  void draw(std::uint64_t seed, TensorView<T> x) const override {
    const Index n = this->hidden_size();
    if (init_ == Init::normal) {
      RandomStream random(seed, RandomPurpose::initialization);
      for (T& value : x) value = static_cast<T>(random.normal() / std::sqrt(static_cast<double>(n)));
      return;
    }
    Tensor<double> q(this->parameter_shape());
    initial_matrix(init_, seed, n, 1, q);
    logarithm(q, x);
  }

  void find_parameters(ConstTensorView<T> q, TensorView<T> x) const override {
    check_orthogonal<T>(q);
    Tensor<double> exact(q.shape());
    std::copy(q.begin(), q.end(), exact.begin());
    logarithm(exact, x);
  }

 private:
  /// The principal logarithm of a rotation: its real Schur form is block diagonal, with an angle in each
  /// block.
  void logarithm(const Tensor<double>& q, TensorView<T> x) const {
    const Index n = this->hidden_size();
    const Eigen::MatrixXd matrix = eigen(columns_of(q)).transpose();
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
    const Eigen::MatrixXd a = schur.matrixU() * angles * schur.matrixU().transpose();
    const MatrixView<const double> view{a.data(), n, n, n};
    skew_parameters_of<T>(view, x);
  }

  Init init_;
  ExponentialOf<T> exponential_;
  Tensor<T> generator_;
  Tensor<T> gradient_;
};

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make(const MatrixExponential& options, Index hidden_size,
                                    const Execution& execution) {
  return std::make_unique<ExponentialMatrix<T>>(options, hidden_size, execution);
}

template std::unique_ptr<Transition<float>> make<float>(const MatrixExponential&, Index, const Execution&);
template std::unique_ptr<Transition<double>> make<double>(const MatrixExponential&, Index, const Execution&);

}  // namespace orthornn
