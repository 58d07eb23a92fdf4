#include "orthornn/orthogonal/unconstrained.hpp"

#include <algorithm>

#include "orthogonal/checks.hpp"
#include "orthogonal/initial_matrix.hpp"
#include "orthornn/orthogonal/orthogonal_matrix.hpp"
#include "orthornn/orthogonal/parametrization.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {
namespace {

/// A matrix that is its own parameter: any, or one that the optimizer keeps orthogonal.
template <class T>
class ItsOwnParameter final : public Parametrization<T> {
 public:
  ItsOwnParameter(Init init, ParameterKind kind, Index n, Device device)
      : init_(init), kind_(kind), q_(Shape{n, n}, device) {}

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
    if (kind_ == ParameterKind::stiefel) check_orthogonal<T>(q);
    copy<T>(q, parameters);
  }

 private:
  Init init_;
  ParameterKind kind_;
  Tensor<T> q_;
};

}  // namespace

Parameter Unconstrained::parameter(Index hidden_size) const {
  return {"matrix", {hidden_size, hidden_size}, ParameterKind::ordinary, 0};
}

template <class T>
TransitionParts<T> Unconstrained::parts(Index hidden_size, const Execution& execution) const {
  return dense_parts<T>(
      std::make_unique<ItsOwnParameter<T>>(init, parameter(hidden_size).kind, hidden_size, execution.device));
}

Parameter OrthogonalMatrix::parameter(Index hidden_size) const {
  return stiefel_parameter(StiefelKind::matrix, hidden_size, hidden_size);
}

template <class T>
TransitionParts<T> OrthogonalMatrix::parts(Index hidden_size, const Execution& execution) const {
  return dense_parts<T>(
      std::make_unique<ItsOwnParameter<T>>(init, parameter(hidden_size).kind, hidden_size, execution.device));
}

template TransitionParts<float> Unconstrained::parts<float>(Index, const Execution&) const;
template TransitionParts<double> Unconstrained::parts<double>(Index, const Execution&) const;
template TransitionParts<float> OrthogonalMatrix::parts<float>(Index, const Execution&) const;
template TransitionParts<double> OrthogonalMatrix::parts<double>(Index, const Execution&) const;

}  // namespace orthornn
