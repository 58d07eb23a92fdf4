#pragma once

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/gated_layer.hpp"

namespace orthornn {

/// Options of an LstmLayer (Hochreiter and Schmidhuber, 1997, with forget gates).
struct Lstm {
  static constexpr const char* name = "lstm";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = GatedLayer<T, Lstm>;
  /// What models ask of these layers before there is one.
  static constexpr LayerTraits traits{.reads_symbols = true, .is_recurrence = true};
  /// Size N of each state, 1 or more.
  Index hidden_size = 128;

  static void fields(auto&& visit) {
    visit("hidden_size", &Lstm::hidden_size, domain::count, "State size N");
  }
  /// Number of outputs of a step, whatever the number of inputs.
  Index output_size(Index) const { return hidden_size; }
};

/// A layer of long short-term memory (docs/math.md, section 9.2). With one block of N rows for each gate,
///
///     i, f, g, o = sigma, sigma, tanh, sigma of W x_t + b + R h_{t-1} + b'
///     c_t = f c_{t-1} + i g
///     h_t = o tanh(c_t)
///
/// Gates, their order and biases are PyTorch's. The states are h and c, [B, N] each.
template <class T>
using LstmLayer = GatedLayer<T, Lstm>;

extern template class GatedLayer<float, Lstm>;
extern template class GatedLayer<double, Lstm>;

}  // namespace orthornn
