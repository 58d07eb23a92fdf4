#pragma once

#include <string>
#include <vector>

#include "orthornn/layers/orthogonal_layer.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {

/// Of the hidden state, reflections, inputs, steps and sequences.
struct RecurrenceSizes {
  Index n, l, k, length, batch;
};

/// A layer with its parameters, and everything that goes into a forward and a backward of it. All numbers are
/// normal, with generators and biases of a size that leaves tanh unsaturated and some modrelu units dead.
template <class T>
struct Recurrence {
  ParameterSet<T> parameters;
  OrthogonalLayer<T> layer;
  Index length, batch;
  Tensor<T> x;                   // [T, B, K]
  Tensor<std::int32_t> symbols;  // [T, B], read where x is empty
  Tensor<T> h0;                  // [B, N]
  Tensor<std::int32_t> lengths;  // [B] or empty
  Tensor<T> dh;                  // [T, B, N]
  Tensor<T> dh_last;             // [B, N]
  Tensor<T> dx;                  // [T, B, K], for x alone

  Recurrence(const OrthogonalCell& cell, Index input_size, Index t, Index b, std::uint64_t seed = 1)
      : layer(parameters, "cell", cell, input_size),
        length(t),
        batch(b),
        x(normal_tensor<T>({t, b, input_size}, seed)),
        h0(normal_tensor<T>({b, cell.hidden_size}, seed + 1)),
        dh(normal_tensor<T>({t, b, cell.hidden_size}, seed + 2)),
        dh_last(normal_tensor<T>({b, cell.hidden_size}, seed + 3)),
        dx(Shape{t, b, input_size}) {
    parameters.allocate(Device::cpu());
    for (std::size_t i = 0; i < parameters.list().size(); ++i) {
      const std::string& name = parameters.list()[i].name;
      const double n = static_cast<double>(cell.hidden_size);
      double deviation = 0.3;
      if (name.find("reflection_vectors") != std::string::npos) deviation = 1;
      if (name == "cell/skew_parameters" || name == "cell/matrix" || name == "cell/stiefel_matrix")
        deviation = 1 / std::sqrt(n);
      // Columns that are nearly dependent have large second derivatives.
      const bool is_proxy = name.ends_with("proxy_matrix");
      if (is_proxy) deviation = 0.3 / std::sqrt(n);
      const TensorView<T> value = parameters.value(static_cast<Index>(i));
      copy<T>(normal_tensor<T>(value.shape(), seed + 4 + i, deviation), value);
      if (is_proxy) {
        for (Index k = 0; k < value.shape()[1]; ++k) value(k, k) += T{1};
      }
    }
  }
  Recurrence(Recurrence&&) = delete;  // the layer refers to the parameters

  void set_lengths(const std::vector<std::int32_t>& live) {
    lengths.resize({batch});
    std::copy(live.begin(), live.end(), lengths.begin());
  }
  /// Symbols at random in place of vectors.
  void use_symbols(std::uint64_t seed) {
    RandomStream random(seed, RandomPurpose::validation);
    symbols.resize({length, batch});
    for (std::int32_t& s : symbols) {
      s = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(layer.input_size())));
    }
    x = Tensor<T>();
    dx = Tensor<T>();
  }

  SequenceInput<T> input() const {
    return {.vectors = x.empty() ? TensorView<const T>() : x.view(),
            .symbols = symbols.empty() ? TensorView<const std::int32_t>() : symbols.view(),
            .lengths = lengths};
  }
  void forward() {
    layer.prepare();
    forward(input(), h0);
  }
  void backward() {
    copy<T>(dh, d_outputs());
    backward(input(), dh_last, dx);
  }

  /// Of the layer as it is prepared, from the caller's input.
  void forward(const SequenceInput<T>& x_or_symbols, ConstTensorView<T> initial) {
    saved_.clear();
    last_state_.reserve({x_or_symbols.batch(), layer.output_size()});
    const TensorView<T> last = last_state_;
    outputs_ = layer.forward(x_or_symbols, {&initial, initial.empty() ? 0U : 1U}, {&last, 1}, saved_);
  }
  void backward(const SequenceInput<T>& x_or_symbols, ConstTensorView<T> d_last, TensorView<T> d_x) {
    d_initial_state_.reserve(last_state_.shape());
    const TensorView<T> d_start = d_initial_state_;
    layer.backward(x_or_symbols,
                   {.d_output = d_outputs_,
                    .d_last = {&d_last, d_last.empty() ? 0U : 1U},
                    .d_input = d_x,
                    .d_start = {&d_start, 1}},
                   saved_, scratch_);
  }
  TensorView<const T> outputs() const { return outputs_; }
  TensorView<const T> last_state() const { return last_state_; }
  TensorView<const T> d_initial_state() const { return d_initial_state_; }
  /// Where the gradient of the outputs is to be put before `backward`.
  TensorView<T> d_outputs() {
    d_outputs_.reserve(outputs_.shape());
    return d_outputs_;
  }

 private:
  Saved saved_{Device::cpu()}, scratch_{Device::cpu()};
  TensorView<const T> outputs_;
  Tensor<T> last_state_, d_outputs_, d_initial_state_;
};

inline constexpr Activation all_activations[] = {Activation::tanh, Activation::relu, Activation::abs,
                                                 Activation::modrelu, Activation::identity};

}  // namespace orthornn::testing
