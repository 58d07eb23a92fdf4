#pragma once

#include <string>

#include "orthornn/core/fields.hpp"
#include "orthornn/layers/gated_layer.hpp"

namespace orthornn {

template <class T>
class LstmLayer;

/// Options of an LstmLayer (Hochreiter and Schmidhuber, 1997, with forget gates).
struct Lstm {
  static constexpr const char* name = "lstm";  ///< Name in files and on the command line.
  /// Layer that these options make.
  template <class T>
  using Layer = LstmLayer<T>;
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
class LstmLayer final : public GatedLayer<T> {
 public:
  /// Adds the parameters of a layer to the set. Throws ValueError for sizes below 1, ShapeError for more
  /// numbers than fit in 63 bits.
  static void add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Lstm& options,
                             Index input_size) {
    GatedLayer<T>::add_gates(parameters, prefix, Lstm::name, gates, options.hidden_size, input_size);
  }

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  LstmLayer(ParameterSet<T>& parameters, const std::string& prefix, const Lstm& options, Index input_size,
            const Execution& execution = {})
      : GatedLayer<T>(parameters, prefix, Lstm::name, gates, options.hidden_size, input_size, execution) {}

  Index state_count() const override { return 2; }
  bool ends_in_state() const override { return true; }
  /// Draws the parameters as GatedLayer, and sets the recurrent bias of the forget gates to 1 (Jozefowicz,
  /// Zaremba and Sutskever, ICML 2015).
  void initialize(std::uint64_t seed) override;

 private:
  static constexpr Index gates = 4;

  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
};

extern template class LstmLayer<float>;
extern template class LstmLayer<double>;

}  // namespace orthornn
