#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// A long short-term memory (Hochreiter and Schmidhuber, 1997) with forget gates, as plain values.
struct Lstm {
  static constexpr const char* name = "lstm";
  Index hidden_size = 128;

  static void fields(auto&& visit) {
    visit("hidden_size", &Lstm::hidden_size, domain::count, "State size N");
  }
};

template <class T>
class AffineMap;
template <class T>
class RecurrentWeights;

/// i, f, g, o = sigma, sigma, tanh, sigma of W x_t + b + R h_{t-1} + b', one block of N rows after the other;
/// c_t = f c_{t-1} + i g, h_t = o tanh(c_t). Gates, order and biases are PyTorch's:
///
/// PREFIX/input_weights [4N, K], input_bias [4N]: W and b
/// PREFIX/recurrent_weights [4N, N], recurrent_bias [4N]: R and b'
///
/// Its states are h and c, [B, N] each. On a GPU a step is a product and a pointwise kernel, recorded.
template <class T>
class LstmLayer final : public Layer<T> {
 public:
  /// Where a layer's parameters are in the set.
  struct Places {
    Index input_weights, input_bias, recurrent_weights, recurrent_bias;
  };
  /// Adds the parameters of such a layer to the set. Throws ValueError for sizes below 1.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Lstm& options,
                               Index input_size);

  LstmLayer(ParameterSet<T>& parameters, const std::string& prefix, const Lstm& options, Index input_size,
            const Execution& execution = {});
  ~LstmLayer() override;

  Index state_count() const override { return 2; }
  Shape state_shape(Index, Index batch) const override { return {batch, options_.hidden_size}; }
  /// Zeros.
  void initial_state(States<T> states) const override;
  /// All from U(-1 / sqrt(N), 1 / sqrt(N)), as PyTorch, but 1 for the recurrent bias of the forget gates
  /// (Jozefowicz, Zaremba and Sutskever, ICML 2015).
  void initialize(std::uint64_t seed) override;
  void prepare() override;
  bool recordable(Index length, Index batch) const override;
  LayerDescription describe(Index length, Index batch) const override;

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, Saved& saved,
                    Saved& scratch) const override;

  Lstm options_;
  Execution execution_;
  Places places_;
  std::unique_ptr<AffineMap<T>> input_map_;
  std::unique_ptr<RecurrentWeights<T>> recurrent_;
  bool prepared_ = false;
  mutable RecordedLoops records_;
};

extern template class LstmLayer<float>;
extern template class LstmLayer<double>;

}  // namespace orthornn
