#include "orthornn/cells/orthogonal_cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "linalg/gemm.hpp"
#include "linalg/packed_matrix.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {

std::string name_of(InputMatrix matrix) { return matrix == InputMatrix::free ? "free" : "stiefel"; }

InputMatrix parse_input_matrix(const std::string& name) {
  if (name == "free") return InputMatrix::free;
  if (name == "stiefel") return InputMatrix::stiefel;
  throw ValueError(fmt::format("unknown input matrix '{}'; expected free or stiefel", name));
}

/// W in the order of the product kernel (real inputs), and its columns one after another (symbols).
template <class T>
struct RecurrentLayer<T>::InputProduct {
  PackedMatrix<T> packed;
  bool is_packed = false;
  Tensor<T> columns;  // [K, N]
  bool has_columns = false;
  Tensor<T> d_columns;  // [K, N]
};

template <class T>
RecurrentLayer<T>::RecurrentLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                  const OrthogonalCell& options, Index input_size)
    : parameters_(parameters),
      options_(options),
      input_size_(input_size),
      transition_(make_transition<T>(options.transition, options.hidden_size)),
      input_product_(std::make_unique<InputProduct>()) {
  if (input_size < 1) throw ValueError(fmt::format("input size {}; expected at least 1", input_size));
  const Index n = options.hidden_size;
  transition_index_ = parameters.add(prefix + "/" + transition_->parameter_name(),
                                     transition_->parameter_shape(), transition_->parameter_kind());
  if (options.input_matrix == InputMatrix::stiefel) {
    stiefel_.emplace(n, input_size);
    input_index_ = parameters.add(prefix + "/input_reflection_vectors", stiefel_->parameter_shape(),
                                  ParameterKind::orthogonal);
    d_input_weights_.resize({n, input_size});
  } else {
    input_index_ = parameters.add(prefix + "/input_weights", {n, input_size});
  }
  bias_index_ = parameters.add(prefix + "/bias", {n});
  if (options.activation == Activation::modrelu)
    modrelu_index_ = parameters.add(prefix + "/modrelu_bias", {n});
}

template <class T>
RecurrentLayer<T>::~RecurrentLayer() = default;

template <class T>
TensorView<T> RecurrentLayer<T>::d_outputs() {
  d_states_.reserve(outputs().shape());
  return d_states_;
}

template <class T>
void RecurrentLayer<T>::initialize(std::uint64_t seed) {
  transition_->initialize(seed, parameters_.value(transition_index_));
  if (stiefel_) {
    stiefel_->initialize(seed + 1, parameters_.value(input_index_));
  } else {
    RandomStream random(seed, RandomPurpose::initialization, 1);
    const double deviation = std::sqrt(2.0 / static_cast<double>(input_size_));
    for (T& w : parameters_.value(input_index_)) w = static_cast<T>(deviation * random.normal());
  }
  const TensorView<T> bias = parameters_.value(bias_index_);
  std::fill(bias.begin(), bias.end(), T{0});
  if (modrelu_index_ >= 0) {
    RandomStream random(seed, RandomPurpose::initialization, 2);
    for (T& m : parameters_.value(modrelu_index_)) m = static_cast<T>(random.uniform(-0.01, 0.01));
  }
}

template <class T>
TensorView<const T> RecurrentLayer<T>::input_weights() const {
  return stiefel_ ? stiefel_->omega() : std::as_const(parameters_).value(input_index_);
}

template <class T>
void RecurrentLayer<T>::prepare() {
  const ParameterSet<T>& parameters = parameters_;
  transition_->prepare(parameters.value(transition_index_));
  if (stiefel_) stiefel_->prepare(parameters.value(input_index_));
  input_product_->is_packed = input_product_->has_columns = false;
  prepared_ = true;
}

/// W as the kind of input that came wants it, once after each `prepare`.
template <class T>
void RecurrentLayer<T>::prepare_input_product(bool symbols) {
  const TensorView<const T> w = input_weights();
  InputProduct& product = *input_product_;
  if (symbols && !product.has_columns) {
    product.columns.reserve({input_size_, options_.hidden_size});
    for (Index n = 0; n < options_.hidden_size; ++n) {
      for (Index k = 0; k < input_size_; ++k) product.columns(k, n) = w(n, k);
    }
    product.has_columns = true;
  } else if (!symbols && !product.is_packed) {
    product.packed.pack(transposed(columns_of(w)));
    product.is_packed = true;
  }
}

template <class T>
void RecurrentLayer<T>::check_input(const SequenceInput<T>& input,
                                    TensorView<const std::int32_t> lengths) const {
  const Index length = input.length();
  const Index batch = input.batch();
  if (length < 1 || batch < 1) {
    throw ShapeError(
        fmt::format("an input of {} steps and {} sequences; expected at least one of each", length, batch));
  }
  if (!input.vectors.empty()) check_shape("input", input.vectors.shape(), {length, batch, input_size_});
  for (const std::int32_t symbol : input.symbols) {
    if (symbol < 0 || symbol >= input_size_) {
      throw ValueError(fmt::format("input symbol {}; expected 0 to {}", symbol, input_size_ - 1));
    }
  }
  if (lengths.empty()) return;
  check_shape("lengths", lengths.shape(), {batch});
  for (const std::int32_t live : lengths) {
    if (live < 0 || live > length) throw ValueError(fmt::format("length {}; expected 0 to {}", live, length));
  }
}

/// Slot t + 1 of the states <- W x_t + b. Nothing here is sequential, so threads share the steps; each step
/// is one product of its own, so that one step alone (generation) gives the same numbers.
template <class T>
void RecurrentLayer<T>::add_input(const SequenceInput<T>& input) {
  prepare_input_product(input.vectors.empty());
  const TensorView<const T> bias = std::as_const(parameters_).value(bias_index_);
  const Index n = options_.hidden_size;
  parallel_for(input.length(), 1, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const MatrixView<T> a = columns_of(states_.view()[t + 1]);
      for (Index j = 0; j < a.cols; ++j) {
        T* column = a.column(j);
        if (input.vectors.empty()) {
          const T* weights = input_product_->columns.data() + input.symbols(t, j) * n;
          for (Index i = 0; i < n; ++i) column[i] = weights[i] + bias(i);
        } else {
          std::copy(bias.begin(), bias.end(), column);
        }
      }
      if (!input.vectors.empty()) input_product_->packed.multiply_add(1, columns_of(input.vectors[t]), a);
    }
  });
}

template <class T>
void RecurrentLayer<T>::forward(const SequenceInput<T>& input, ConstTensorView<T> h0,
                                TensorView<const std::int32_t> lengths) {
  if (!prepared_) throw ValueError("a cell was run before prepare()");
  check_input(input, lengths);
  const Index batch = input.batch();
  const Index n = options_.hidden_size;
  states_.reserve({input.length() + 1, batch, n});
  last_state_.reserve({batch, n});
  const TensorView<T> initial = states_.view()[0];
  if (h0.empty()) {
    std::fill(initial.begin(), initial.end(), T{0});
  } else {
    check_shape("initial state", h0.shape(), initial.shape());
    copy<T>(h0, initial);
  }
  add_input(input);
  const TensorView<const T> modrelu_bias =
      modrelu_index_ < 0 ? TensorView<const T>() : std::as_const(parameters_).value(modrelu_index_);
  rollout_forward<T>(*transition_, options_.activation, modrelu_bias, lengths, states_, last_state_, cache_);
}

template <class T>
void RecurrentLayer<T>::backward(const SequenceInput<T>& input, ConstTensorView<T> d_h_last,
                                 TensorView<const std::int32_t> lengths, TensorView<T> d_input) {
  const Index length = input.length();
  check_shape("outputs of the input that backward was given", {length, input.batch(), options_.hidden_size},
              d_states_.shape());
  check_shape("outputs of the last forward", outputs().shape(), d_states_.shape());
  if (!d_h_last.empty()) check_shape("d_h_last", d_h_last.shape(), last_state_.shape());
  if (!lengths.empty()) check_shape("lengths", lengths.shape(), {input.batch()});
  if (!d_input.empty()) check_shape("d_input", d_input.shape(), {length, input.batch(), input_size_});
  d_initial_state_.reserve({input.batch(), options_.hidden_size});
  rollout_backward<T>(*transition_, options_.activation, lengths, states_, d_h_last, d_states_,
                      d_initial_state_, cache_);
  const auto coefficients = [&](const Tensor<T>& c) {
    const Index count = transition_->coefficient_count();
    return MatrixView<const T>{c.data(), count, length * input.batch(), count, c.device()};
  };
  transition_->backward_of_rollout(
      columns_of(std::as_const(d_states_)), columns_of(std::as_const(states_).view().slice(0, length)),
      coefficients(cache_.z), coefficients(cache_.y), parameters_.gradient(transition_index_));
  backward_of_input(input, d_input);
}

/// dW = G X^T, db = G 1, dm = sum of sign(h) * g, dX = W^T G, with G over all steps and sequences.
template <class T>
void RecurrentLayer<T>::backward_of_input(const SequenceInput<T>& input, TensorView<T> d_input) {
  const MatrixView<const T> g = columns_of(std::as_const(d_states_));
  const MatrixView<const T> h = columns_of(outputs());
  const TensorView<T> d_bias = parameters_.gradient(bias_index_);
  const TensorView<T> d_modrelu = modrelu_index_ < 0 ? TensorView<T>() : parameters_.gradient(modrelu_index_);
  const bool symbols = input.vectors.empty();
  Tensor<T>& d_columns = input_product_->d_columns;
  if (symbols) d_columns.reserve({input_size_, options_.hidden_size});

  // One pass over G for all sums over its columns; threads share the rows, so every sum keeps its order.
  parallel_for(g.rows, 16, [&](Index first, Index last) {
    const Index count = last - first;
    T* bias = d_bias.data() + first;
    std::fill(bias, bias + count, T{0});
    T* modrelu = d_modrelu.empty() ? nullptr : d_modrelu.data() + first;
    if (modrelu) std::fill(modrelu, modrelu + count, T{0});
    for (Index k = 0; symbols && k < input_size_; ++k) {
      std::fill(&d_columns(k, first), &d_columns(k, first) + count, T{0});
    }
    for (Index j = 0; j < g.cols; ++j) {
      const T* gradient = g.column(j) + first;
      for (Index i = 0; i < count; ++i) bias[i] += gradient[i];
      if (modrelu) {
        const T* state = h.column(j) + first;
        for (Index i = 0; i < count; ++i) modrelu[i] += std::copysign(gradient[i], gradient[i] * state[i]);
      }
      if (symbols) {
        T* column = &d_columns(input.symbols.data()[j], first);
        for (Index i = 0; i < count; ++i) column[i] += gradient[i];
      }
    }
  });

  const TensorView<T> d_weights = stiefel_ ? d_input_weights_.view() : parameters_.gradient(input_index_);
  if (symbols) {
    for (Index n = 0; n < options_.hidden_size; ++n) {
      for (Index k = 0; k < input_size_; ++k) d_weights(n, k) = d_columns(k, n);
    }
  } else {
    gemm<T>(1, columns_of(input.vectors), transposed(g), 0, columns_of(d_weights));
  }
  if (stiefel_) stiefel_->backward(d_input_weights_, parameters_.gradient(input_index_));
  if (!d_input.empty()) gemm<T>(1, columns_of(input_weights()), g, 0, columns_of(d_input));
}

template class RecurrentLayer<float>;
template class RecurrentLayer<double>;

}  // namespace orthornn
