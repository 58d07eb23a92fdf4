#pragma once

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/gated_layer.hpp"

namespace orthornn {

/// Options of a GruLayer (Cho et al., EMNLP 2014).
struct Gru {
  static constexpr const char* name = "gru";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = GatedLayer<T, Gru>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_symbols = true, .is_recurrence = true};
  /// Size N of the state, 1 or more.
  Index hidden_size = 128;

  static void fields(auto&& visit) { visit("hidden_size", &Gru::hidden_size, domain::count, "State size N"); }
  /// Number of outputs of a step, whatever the number of inputs.
  Index output_size(Index) const { return hidden_size; }
};

/// A layer of gated recurrent units (docs/math.md, section 9.3). With one block of N rows for each gate,
///
///     r, z = sigma(W x_t + b + R h_{t-1} + b')
///     n    = tanh(W x_t + b + r (R h_{t-1} + b'))
///     h_t  = (1 - z) n + z h_{t-1}
///
/// Gates, their order and biases are PyTorch's, the reset gate after the product included. The state is h
/// [B, N].
template <class T>
using GruLayer = GatedLayer<T, Gru>;

extern template class GatedLayer<float, Gru>;
extern template class GatedLayer<double, Gru>;

}  // namespace orthornn
