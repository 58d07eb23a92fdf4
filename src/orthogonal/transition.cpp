#include "orthornn/orthogonal/transition.hpp"

#include <fmt/format.h>

#include "core/fill_on_host.hpp"
#include "core/parallel.hpp"
#include "core/register_kind.hpp"
#include "linalg/elementwise.hpp"
#include "orthogonal/checks.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

template <class T>
struct PartsOf {
  Index hidden_size;
  const Execution& execution;

  TransitionParts<T> operator()(const auto& options) const {
    return options.template parts<T>(hidden_size, execution);
  }
  TransitionParts<T> operator()(const OwnTransition& options) const {
    TransitionParts<T> parts;
    options->make(hidden_size, execution, parts);
    return parts;
  }
};

template <class T>
TransitionParts<T> parts_of(const TransitionOptions& options, Index hidden_size, const Execution& execution) {
  parameter_of(options, hidden_size);  // which checks them
  TransitionParts<T> parts = std::visit(PartsOf<T>{hidden_size, execution}, options);
  // A program's own kind may have made anything.
  if (parts.parametrization == nullptr || parts.product == nullptr)
    throw ValueError(fmt::format("transition '{}' has no parametrization or no product", name_of(options)));
  if (parts.product->traits().form == "dense" && parts.product->dense_matrix().data == nullptr)
    throw ValueError(fmt::format("transition '{}' is dense and has no matrix", name_of(options)));
  return parts;
}

/// A matrix that is there, where it lies.
template <class T>
class GivenMatrix final : public Parametrization<T> {
 public:
  explicit GivenMatrix(TensorView<const T> q) : q_(q) {}

  TensorView<const T> q() const { return q_; }

  void draw(std::uint64_t, TensorView<T>) const override {
    throw ValueError("a given matrix has no parameters to draw; expected a kind of transition");
  }
  void prepare(ConstTensorView<T> parameters) override {
    if (parameters.data() != q_.data())
      throw ValueError("another matrix was given; make a new transition of it");
  }
  void backward(const Factors<T>& gradient, TensorView<T> d_parameters) override {
    copy<T>(gradient.q, d_parameters);
  }

 private:
  TensorView<const T> q_;
};

/// x <- Q x or Q^T x.
template <class T>
void replace_columns(MatrixView<T> x, const Product<T>& product, Side side, Precision precision) {
  const Index coefficient_count = product.traits().coefficient_count;
  Tensor<T> result(Shape{x.cols, x.rows}, x.device);
  Tensor<T> coefficients(Shape{x.cols, coefficient_count}, x.device);
  const auto to = columns_of(result);
  const auto c = MatrixView<T>{coefficients.data(), coefficient_count, x.cols, coefficient_count, x.device};
  parallel_for(x.cols, product.traits().column_grain, [&](Index first, Index last) {
    const Index count = last - first;
    product.multiply_add(side, x.columns(first, count), to.columns(first, count), c.columns(first, count),
                         precision);
  });
  copy<T>(result, TensorView<T>(x.data, result.shape(), x.device));
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

template <class T>
Transition<T>::Transition(const TransitionOptions& options, Index hidden_size, const Execution& execution)
    : Transition(parts_of<T>(options, hidden_size, execution), orthornn::parameter_of(options, hidden_size),
                 hidden_size, execution) {}

template <class T>
Transition<T>::Transition(TransitionParts<T> parts, Parameter parameter, Index hidden_size,
                          const Execution& execution)
    : hidden_size_(hidden_size),
      parameter_(std::move(parameter)),
      execution_(execution),
      parametrization_(std::move(parts.parametrization)),
      product_(std::move(parts.product)),
      traits_(product_->traits()) {}

template <class T>
Transition<T> Transition<T>::of_matrix(ConstTensorView<T> q, const Execution& execution) {
  if (q.shape().rank() != 2) check_shape("q", q.shape(), {0, 0});
  const Index n = q.shape()[0];
  check_tensor("q", q, {n, n}, execution.device);
  Transition result(dense_parts<T>(std::make_unique<GivenMatrix<T>>(q)), Unconstrained{}.parameter(n), n,
                    execution);
  result.product_->prepare();
  result.prepared_ = true;
  return result;
}

template <class T>
Transition<T>::Transition(Transition&& other) noexcept = default;

template <class T>
Transition<T>::~Transition() = default;

template <class T>
void Transition<T>::initialize(std::uint64_t seed, TensorView<T> parameters) const {
  check_shape(parameter_name().c_str(), parameters.shape(), parameter_shape());
  fill_on_host(parameters, [&](TensorView<T> host) { parametrization_->draw(seed, host); });
}

template <class T>
void Transition<T>::parameters_of(ConstTensorView<T> q, TensorView<T> parameters) const {
  check_shape("orthogonal matrix", q.shape(), {hidden_size_, hidden_size_});
  check_shape(parameter_name().c_str(), parameters.shape(), parameter_shape());
  Tensor<T> q_on_host(q.shape());
  copy<T>(q, q_on_host);
  fill_on_host(parameters, [&](TensorView<T> host) { parametrization_->find_parameters(q_on_host, host); });
}

template <class T>
void Transition<T>::prepare(ConstTensorView<T> parameters) {
  check_tensor(parameter_name().c_str(), parameters, parameter_shape(), device());
  prepared_ = false;
  parametrization_->prepare(parameters);
  product_->prepare();
  prepared_ = true;
}

template <class T>
bool Transition<T>::recordable() const {
  return parametrization_->recordable() && traits_.recordable;
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
  replace_columns(columns_of(h), *product_, Side::q, execution_.precision);
}

template <class T>
void Transition<T>::apply_transpose(TensorView<T> h) const {
  check_vectors(h);
  replace_columns(columns_of(h), *product_, Side::q_transposed, execution_.precision);
}

template <class T>
Tensor<T> Transition<T>::materialize() const {
  // Columns of Q^T are rows of Q, as C order requires.
  Tensor<T> q(Shape{hidden_size_, hidden_size_}, device());
  check_vectors(q);
  add_to_diagonal(columns_of(q), T{1});
  replace_columns(columns_of(q), *product_, Side::q_transposed, Precision::fp32);
  return q;
}

template <class T>
void Transition<T>::backward(ConstTensorView<T> d_q, TensorView<T> d_parameters) {
  check_tensor("d_q", d_q, {hidden_size_, hidden_size_}, device());
  check_tensor(("d_" + parameter_name()).c_str(), d_parameters, parameter_shape(), device());
  parametrization_->backward(product_->backward(d_q, execution_.precision), d_parameters);
}

template <class T>
MatrixView<const T> Transition<T>::dense_matrix() const {
  return product_->dense_matrix();
}

template <class T>
void Transition<T>::multiply_add(MatrixView<const T> h, MatrixView<T> a, MatrixView<T> z) const {
  product_->multiply_add(Side::q, h, a, z, execution_.precision);
}

template <class T>
void Transition<T>::multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d, MatrixView<T> y) const {
  product_->multiply_add(Side::q_transposed, g, d, y, execution_.precision);
}

template <class T>
void Transition<T>::backward_of_rollout(MatrixView<const T> g, MatrixView<const T> h, MatrixView<const T> z,
                                        MatrixView<const T> y, TensorView<T> d_parameters) {
  parametrization_->backward(product_->backward_of_rollout(g, h, z, y, execution_.precision), d_parameters);
}

template class Transition<float>;
template class Transition<double>;

void register_transition(const OwnTransition& defaults) {
  register_kind<TransitionOptions>("transition", defaults);
}
template const std::vector<OwnTransition>& OwnTransition::registered();

Index* reflections_of(TransitionOptions& options) { return std::visit(FindReflections<Index>{}, options); }
const Index* reflections_of(const TransitionOptions& options) {
  return std::visit(FindReflections<const Index>{}, options);
}

Parameter parameter_of(const TransitionOptions& options, Index hidden_size) {
  if (hidden_size < 1) throw ValueError(fmt::format("hidden size {}; expected at least 1", hidden_size));
  return std::visit(
      [&]<class Options>(const Options& chosen) {
        if constexpr (IsOwnKind<Options>) {
          check_registered("transition", chosen);
          return chosen->parameter(hidden_size);
        } else {
          return chosen.parameter(hidden_size);
        }
      },
      options);
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

template std::unique_ptr<Transition<float>> prepare<float>(const TransitionOptions&, ConstTensorView<float>);
template std::unique_ptr<Transition<double>> prepare<double>(const TransitionOptions&,
                                                             ConstTensorView<double>);

}  // namespace orthornn
