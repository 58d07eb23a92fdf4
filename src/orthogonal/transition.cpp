#include "orthornn/orthogonal/transition.hpp"

#include <fmt/format.h>

#include "core/fill_on_host.hpp"
#include "core/parallel.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "orthogonal/check_tensor.hpp"
#include "orthogonal/factories.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// x <- multiply(x) for all columns, where multiply(from, to, coefficients) adds to `to`.
template <class T, class Multiply>
void replace_columns(MatrixView<T> x, const Transition<T>& transition, const Multiply& multiply) {
  const Index coefficient_count = transition.coefficient_count();
  Tensor<T> result(Shape{x.cols, x.rows}, x.device);
  Tensor<T> coefficients(Shape{x.cols, coefficient_count}, x.device);
  const auto to = columns_of(result);
  const auto c = MatrixView<T>{coefficients.data(), coefficient_count, x.cols, coefficient_count, x.device};
  parallel_for(x.cols, transition.column_grain(), [&](Index first, Index last) {
    const Index count = last - first;
    multiply(x.columns(first, count), to.columns(first, count), c.columns(first, count));
  });
  copy<T>(result, TensorView<T>(x.data, result.shape(), x.device));
}

}  // namespace

template <class T>
void Transition<T>::initialize(std::uint64_t seed, TensorView<T> parameters) const {
  check_shape(parameter_name().c_str(), parameters.shape(), parameter_shape());
  fill_on_host(parameters, [&](TensorView<T> host) { draw(seed, host); });
}

template <class T>
void Transition<T>::parameters_of(ConstTensorView<T> q, TensorView<T> parameters) const {
  check_shape("orthogonal matrix", q.shape(), {hidden_size_, hidden_size_});
  check_shape(parameter_name().c_str(), parameters.shape(), parameter_shape());
  Tensor<T> q_on_host(q.shape());
  copy<T>(q, q_on_host);
  fill_on_host(parameters, [&](TensorView<T> host) { find_parameters(q_on_host, host); });
}

template <class T>
void Transition<T>::check_vectors(TensorView<T> h) const {
  if (!prepared_) throw ValueError("a transition was applied before prepare()");
  if (h.shape().rank() == 0 || h.shape()[-1] != hidden_size_) check_shape("h", h.shape(), {hidden_size_});
  check_tensor("h", h, h.shape(), device());
}

template <class T>
void Transition<T>::apply(TensorView<T> h) const {
  check_vectors(h);
  replace_columns(columns_of(h), *this, [this](auto from, auto to, auto c) { multiply_add(from, to, c); });
}

template <class T>
void Transition<T>::apply_transpose(TensorView<T> h) const {
  check_vectors(h);
  replace_columns(columns_of(h), *this,
                  [this](auto from, auto to, auto c) { multiply_add_transposed(from, to, c); });
}

template <class T>
Tensor<T> Transition<T>::materialize() const {
  // Columns of Q^T are rows of Q, as C order requires.
  Tensor<T> q(Shape{hidden_size_, hidden_size_}, device());
  check_vectors(q);
  add_to_diagonal(columns_of(q), T{1});
  replace_columns(columns_of(q), *this, [this](auto from, auto to, auto c) {
    add_transposed_product(from, to, c, Precision::fp32);
  });
  return q;
}

template <class T>
void Transition<T>::backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T>,
                                        MatrixView<const T>, TensorView<T> d_parameters) {
  d_q_.reserve(Shape{hidden_size_, hidden_size_});
  // dQ = G H^T in C order, that is H G^T in the column-major view.
  gemm<T>(1, h, transposed(g), 0, columns_of(d_q_), execution_.precision);
  backward(d_q_, d_parameters);
}

template class Transition<float>;
template class Transition<double>;

namespace {

Parameter reflection_vectors(Index reflections, Index hidden_size) {
  if (reflections < 0 || reflections > hidden_size) {
    throw ValueError(fmt::format("{} reflections with hidden size {}; expected 1 to {}", reflections,
                                 hidden_size, hidden_size));
  }
  return {"reflection_vectors",
          {reflections == 0 ? hidden_size : reflections, hidden_size},
          ParameterKind::orthogonal,
          0};
}
Parameter square(const char* name, Index hidden_size, ParameterKind kind) {
  return {name, {hidden_size, hidden_size}, kind, 0};
}

Parameter parameter(const Cwy& o, Index hidden_size) {
  return reflection_vectors(o.reflections, hidden_size);
}
Parameter parameter(const HouseholderProduct& o, Index hidden_size) {
  return reflection_vectors(o.reflections, hidden_size);
}
Parameter parameter(const ScaledCayley& o, Index hidden_size) {
  if (o.negative_signs < 0 || o.negative_signs > hidden_size) {
    throw ValueError(fmt::format("{} negative signs with hidden size {}; expected 0 to {}", o.negative_signs,
                                 hidden_size, hidden_size));
  }
  return square("skew_parameters", hidden_size, ParameterKind::orthogonal);
}
Parameter parameter(const MatrixExponential&, Index hidden_size) {
  return square("skew_parameters", hidden_size, ParameterKind::orthogonal);
}
Parameter parameter(const Unconstrained&, Index hidden_size) {
  return square("matrix", hidden_size, ParameterKind::ordinary);
}

/// Number is Index, or const Index.
template <class Number>
struct FindReflections {
  template <class Options>
  Number* operator()(Options& options) const {
    if constexpr (requires { options.reflections; }) return &options.reflections;
    return nullptr;
  }
};

}  // namespace

Index* reflections_of(TransitionOptions& options) { return std::visit(FindReflections<Index>{}, options); }
const Index* reflections_of(const TransitionOptions& options) {
  return std::visit(FindReflections<const Index>{}, options);
}

Parameter parameter_of(const TransitionOptions& options, Index hidden_size) {
  if (hidden_size < 1) throw ValueError(fmt::format("hidden size {}; expected at least 1", hidden_size));
  return std::visit([&](const auto& chosen) { return parameter(chosen, hidden_size); }, options);
}

template <class T>
std::unique_ptr<Transition<T>> make_transition(const TransitionOptions& options, Index hidden_size,
                                               const Execution& execution) {
  return std::visit([&](const auto& chosen) { return make<T>(chosen, hidden_size, execution); }, options);
}

template <class T>
std::unique_ptr<Transition<T>> prepare(const TransitionOptions& options, ConstTensorView<T> parameters) {
  if (parameters.shape().rank() != 2) check_shape("parameters", parameters.shape(), {0, 0});
  TransitionOptions sized = options;
  if (Index* reflections = reflections_of(sized)) *reflections = parameters.shape()[0];
  auto transition = make_transition<T>(sized, parameters.shape()[1], parameters.device());
  transition->prepare(parameters);
  return transition;
}

template std::unique_ptr<Transition<float>> make_transition<float>(const TransitionOptions&, Index,
                                                                   const Execution&);
template std::unique_ptr<Transition<double>> make_transition<double>(const TransitionOptions&, Index,
                                                                     const Execution&);
template std::unique_ptr<Transition<float>> prepare<float>(const TransitionOptions&, ConstTensorView<float>);
template std::unique_ptr<Transition<double>> prepare<double>(const TransitionOptions&,
                                                             ConstTensorView<double>);

}  // namespace orthornn
