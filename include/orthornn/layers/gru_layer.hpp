#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// A gated recurrent unit (Cho et al., EMNLP 2014), as plain values.
struct Gru {
  static constexpr const char* name = "gru";
  Index hidden_size = 128;

  static void fields(auto&& visit) { visit("hidden_size", &Gru::hidden_size, domain::count, "State size N"); }
};

template <class T>
class AffineMap;
template <class T>
class RecurrentWeights;

/// r, z = sigma of W x_t + b + R h_{t-1} + b', n = tanh(W x_t + b + r (R h_{t-1} + b')), one block of N rows
/// after the other; h_t = (1 - z) n + z h_{t-1}. Gates, order and biases are PyTorch's, the reset gate after
/// the product included:
///
/// PREFIX/input_weights [3N, K], input_bias [3N]: W and b
/// PREFIX/recurrent_weights [3N, N], recurrent_bias [3N]: R and b'
///
/// Its state is h [B, N]. On a GPU a step is a product and a pointwise kernel, recorded.
template <class T>
class GruLayer final : public Layer<T> {
 public:
  /// Where a layer's parameters are in the set.
  struct Places {
    Index input_weights, input_bias, recurrent_weights, recurrent_bias;
  };
  /// Adds the parameters of such a layer to the set. Throws ValueError for sizes below 1.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Gru& options,
                               Index input_size);

  GruLayer(ParameterSet<T>& parameters, const std::string& prefix, const Gru& options, Index input_size,
           const Execution& execution = {});
  ~GruLayer() override;

  Index state_count() const override { return 1; }
  Shape state_shape(Index, Index batch) const override { return {batch, options_.hidden_size}; }
  /// Zeros.
  void initial_state(States<T> states) const override;
  /// All from U(-1 / sqrt(N), 1 / sqrt(N)), as PyTorch.
  void initialize(std::uint64_t seed) override;
  void prepare() override;
  bool recordable(Index length, Index batch) const override;
  LayerDescription describe(Index length, Index batch) const override;

 private:
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, Saved& saved,
                    Saved& scratch) const override;

  Gru options_;
  Execution execution_;
  Places places_;
  std::unique_ptr<AffineMap<T>> input_map_;
  std::unique_ptr<RecurrentWeights<T>> recurrent_;
  bool prepared_ = false;
  mutable RecordedLoops records_;
};

extern template class GruLayer<float>;
extern template class GruLayer<double>;

}  // namespace orthornn
