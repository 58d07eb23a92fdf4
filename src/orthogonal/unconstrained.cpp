#include "orthornn/orthogonal/unconstrained.hpp"

#include <algorithm>

#include "orthogonal/initial_matrix.hpp"
#include "orthornn/orthogonal/parametrization.hpp"

namespace orthornn {
namespace {

template <class T>
class FreeMatrix final : public Parametrization<T> {
 public:
  FreeMatrix(Init init, Index n, Device device) : init_(init), q_(Shape{n, n}, device) {}

  TensorView<const T> q() const { return q_; }

  void prepare(ConstTensorView<T> parameters) override { copy<T>(parameters, q_); }
  void backward(const Factors<T>& gradient, TensorView<T> d_parameters) override {
    copy<T>(gradient.q, d_parameters);
  }
  void draw(std::uint64_t seed, TensorView<T> parameters) const override {
    Tensor<double> q(parameters.shape());
    initial_matrix(init_, seed, q.shape()[0], 1, q);
    std::transform(q.begin(), q.end(), parameters.begin(), [](double x) { return static_cast<T>(x); });
  }
  void find_parameters(ConstTensorView<T> q, TensorView<T> parameters) const override {
    copy<T>(q, parameters);
  }

 private:
  Init init_;
  Tensor<T> q_;
};

}  // namespace

Parameter Unconstrained::parameter(Index hidden_size) const {
  return {"matrix", {hidden_size, hidden_size}, ParameterKind::ordinary, 0};
}

template <class T>
TransitionParts<T> Unconstrained::parts(Index hidden_size, const Execution& execution) const {
  return dense_parts<T>(std::make_unique<FreeMatrix<T>>(init, hidden_size, execution.device));
}

template TransitionParts<float> Unconstrained::parts<float>(Index, const Execution&) const;
template TransitionParts<double> Unconstrained::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
