#pragma once

#include <memory>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/recorded_loops.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

template <class T>
class AffineMap;
template <class T>
class RecurrentWeights;

/// A recurrence with G gates of N units: an LSTM or a GRU, by its options `Lstm` or `Gru`. The parameters are
///
/// - PREFIX/input_weights [GN, K] and PREFIX/input_bias [GN]: W and b;
/// - PREFIX/recurrent_weights [GN, N] and PREFIX/recurrent_bias [GN]: R and b'.
///
/// Their rows are blocks of N rows, one for each gate in PyTorch's order. On a GPU the loop is one kernel
/// (RolloutWay::grid), or a step is a product and a pointwise kernel, and the loop is recorded
/// (RolloutWay::stepwise).
template <class T, class Options>
class GatedLayer final : public Layer<T> {
 public:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index input_weights,    ///< Number of W.
        input_bias,         ///< Number of b.
        recurrent_weights,  ///< Number of R.
        recurrent_bias;     ///< Number of b'.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes below
  /// 1, ShapeError for more numbers than fit in 63 bits.
  static Places add_parameters(ParameterSet<T>& parameters, const std::string& prefix, const Options& options,
                               Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_parameters`.
  GatedLayer(ParameterSet<T>& parameters, const std::string& prefix, const Options& options, Index input_size,
             const Execution& execution = {});
  ~GatedLayer() override;

  /// Number of states, [B, N] each: h, and c of an LSTM.
  Index state_count() const override;
  bool ends_in_state() const override { return true; }
  Shape state_shape(Index, Index batch) const override { return {batch, this->output_size()}; }
  /// Draws all parameters from U(-1 / sqrt(N), 1 / sqrt(N)), as PyTorch, and sets the recurrent bias of an
  /// LSTM's forget gates to 1 (Jozefowicz, Zaremba and Sutskever, ICML 2015).
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  /// Describes the layer. Throws ValueError where the execution names a rollout that is none of automatic,
  /// grid and stepwise, or grid for sizes that it does not take.
  LayerDescription describe(Index length, Index batch) const override;

 private:
  struct Rollout;

  void run_prepare() override;
  TensorView<const T> run_forward(const SequenceInput<T>& input, States<const T> start, States<T> last,
                                  Saved& saved) const override;
  void run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool own_start,
                    Saved& saved, Saved& scratch) const override;
  RolloutWay way(Index length, Index batch) const;
  void recurrent_gradients(const Rollout& rollout, Saved& scratch) const;
  template <class Steps>
  void run_steps(const Rollout& rollout, const Steps& steps) const;

  Execution execution_;
  Places places_;
  std::unique_ptr<AffineMap<T>> input_map_;         // W x + b
  std::unique_ptr<RecurrentWeights<T>> recurrent_;  // R h
  mutable RecordedLoops records_;
};

}  // namespace orthornn
