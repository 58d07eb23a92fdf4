#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/gated_layer.hpp"

namespace orthornn {

template <class T>
class GruLayer;

/// Options of a GruLayer (Cho et al., EMNLP 2014).
struct Gru {
  static constexpr const char* name = "gru";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = GruLayer<T>;
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
class GruLayer final : public GatedLayer<T> {
 public:
  /// Adds the parameters of a layer to the set. Throws ValueError for sizes below 1, ShapeError for more
  /// numbers than fit in 63 bits.
  static void add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Gru& options,
                             Index input_size) {
    GatedLayer<T>::add_gates(parameters, prefix, Gru::name, gates, options.hidden_size, input_size);
  }

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  GruLayer(ParameterSet<T>& parameters, const std::string& prefix, const Gru& options, Index input_size,
           const Execution& execution = {})
      : GatedLayer<T>(parameters, prefix, Gru::name, gates, options.hidden_size, input_size, execution) {}

  Index state_count() const override { return 1; }
  bool ends_in_state() const override { return true; }

 private:
  static constexpr Index gates = 3;

  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
};

extern template class GruLayer<float>;
extern template class GruLayer<double>;

}  // namespace orthornn
