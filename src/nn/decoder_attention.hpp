#pragma once

#include <cmath>
#include <string>

#include "orthornn/layers/linear_layer.hpp"

namespace orthornn {

/// What a decoder makes of its states h [T, B, N] and of an encoder's outputs k [S, B, K] (Luong, Pham and
/// Manning, EMNLP 2015, equations 5, 7 and 8, "general" and global):
///
///     c = attention of W_a h over k with the scale 1 / sqrt(K),  y [T, B, M] = tanh(W_c [c; h])
///
/// Both maps have biases. Their parameters are PREFIX/query/.. and PREFIX/vector/...
template <class T>
class DecoderAttention {
 public:
  struct Sizes {
    Index state, key, output;
  };
  static void add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Sizes& sizes);

  DecoderAttention(ParameterSet<T>& parameters, const std::string& prefix, const Sizes& sizes,
                   const Execution& execution);

  Index output_size() const { return vector_.output_size(); }
  void initialize(std::uint64_t seed);
  void prepare();

  /// What the encoder returned, and the live steps of each sequence.
  struct Source {
    TensorView<const T> keys;
    TensorView<const std::int32_t> lengths;
  };
  /// Returns y, which is on top of `saved`.
  TensorView<const T> forward(TensorView<const T> states, const Source& source, Saved& saved) const;
  /// The attention weights [T, B, S] of the forward on top.
  TensorView<const T> weights(const Saved& saved) const { return saved.top<T>(3); }
  /// Pops what the forward left. d_y is overwritten by scratch numbers; d_states and d_keys are overwritten
  /// by gradients, as are those of the parameters. `scratch` is as it was when this returns.
  void backward(TensorView<const T> states, const Source& source, TensorView<T> d_y, TensorView<T> d_states,
                TensorView<T> d_keys, Saved& saved, Saved& scratch) const;

 private:
  /// Scores are sums of K products. So large states would make softmax choose one step from the start.
  T scale() const { return T{1} / std::sqrt(static_cast<T>(query_.output_size())); }

  LinearLayer<T> query_, vector_;
};

extern template class DecoderAttention<float>;
extern template class DecoderAttention<double>;

}  // namespace orthornn
