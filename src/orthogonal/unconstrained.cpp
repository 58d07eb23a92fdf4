#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orthogonal/dense_transition.hpp"
#include "orthogonal/factories.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
class FreeMatrix final : public DenseTransition<T> {
 public:
  FreeMatrix(const Unconstrained& options, Index n) : DenseTransition<T>(n), init_(options.init) {}

  std::string parameter_name() const override { return "matrix"; }
  ParameterKind parameter_kind() const override { return ParameterKind::ordinary; }

  void initialize(std::uint64_t seed, TensorView<T> parameters) const override {
    check_shape("matrix", parameters.shape(), this->parameter_shape());
    Tensor<double> q(this->parameter_shape());
    initial_matrix(init_, seed, this->hidden_size(), 1, q);
    std::transform(q.begin(), q.end(), parameters.begin(), [](double x) { return static_cast<T>(x); });
  }
  void parameters_of(ConstTensorView<T> q, TensorView<T> parameters) const override {
    check_shape("matrix", q.shape(), this->parameter_shape());
    copy<T>(q, parameters);
  }
  void prepare(ConstTensorView<T> parameters) override {
    check_shape("matrix", parameters.shape(), this->parameter_shape());
    copy<T>(parameters, this->matrix_.q());
    this->matrix_.pack();
    this->set_prepared(true);
  }
  void backward(ConstTensorView<T> d_q, TensorView<T> d_parameters) override {
    check_shape("d_q", d_q.shape(), {this->hidden_size(), this->hidden_size()});
    check_shape("d_matrix", d_parameters.shape(), this->parameter_shape());
    copy<T>(d_q, d_parameters);
  }
  double flops_of_prepare() const override { return 0; }

 private:
  Init init_;
};

}  // namespace

template <class T>
std::unique_ptr<Transition<T>> make_unconstrained(const Unconstrained& options, Index hidden_size) {
  return std::make_unique<FreeMatrix<T>>(options, hidden_size);
}

template std::unique_ptr<Transition<float>> make_unconstrained<float>(const Unconstrained&, Index);
template std::unique_ptr<Transition<double>> make_unconstrained<double>(const Unconstrained&, Index);

}  // namespace orthornn
