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

/// Base of LSTM and GRU, which have G gates of N units. The parameters are
///
/// - PREFIX/input_weights [GN, K] and PREFIX/input_bias [GN]: W and b;
/// - PREFIX/recurrent_weights [GN, N] and PREFIX/recurrent_bias [GN]: R and b'.
///
/// Their rows are blocks of N rows, one for each gate in PyTorch's order. On a GPU a step is a product and a
/// pointwise kernel, and the loop is recorded (RolloutWay::stepwise).
template <class T>
class GatedLayer : public Layer<T> {
 public:
  ~GatedLayer() override;

  Shape state_shape(Index, Index batch) const override { return {batch, this->output_size()}; }
  /// Draws all parameters from U(-1 / sqrt(N), 1 / sqrt(N)), as PyTorch.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  /// Describes the layer. Throws ValueError where the execution names a rollout that is neither automatic nor
  /// stepwise.
  LayerDescription describe(Index length, Index batch) const override;

 protected:
  /// Numbers of a layer's parameters in the set.
  struct Places {
    Index input_weights,    ///< Number of W.
        input_bias,         ///< Number of b.
        recurrent_weights,  ///< Number of R.
        recurrent_bias;     ///< Number of b'.
  };
  /// Adds the parameters of a layer to the set and returns their numbers. Throws ValueError for sizes below
  /// 1, ShapeError for more numbers than fit in 63 bits.
  static Places add_gates(ParameterSet<T>& parameters, const std::string& prefix, const char* kind,
                          Index gates, Index hidden_size, Index input_size);

  /// Makes a layer and adds its parameters to the set. Throws as `add_gates`.
  GatedLayer(ParameterSet<T>& parameters, const std::string& prefix, const char* kind, Index gates,
             Index hidden_size, Index input_size, const Execution& execution);

  void run_prepare() override;
  /// Runs the loop of a forward or a backward on a GPU, recorded where a graph can hold it.
  void run_steps(Index length, RecordedLoops::Key key, const std::function<void()>& steps) const;
  /// A function that calls `run_steps` for loops of this length.
  auto steps_of(Index length) const {
    return [this, length](RecordedLoops::Key key, const std::function<void()>& steps) {
      run_steps(length, std::move(key), steps);
    };
  }

  const char* kind_;                                ///< Name of the kind of layer.
  Execution execution_;                             ///< Where and how the layer computes.
  Places places_;                                   ///< Numbers of the layer's parameters.
  std::unique_ptr<AffineMap<T>> input_map_;         ///< Map of the inputs, W x + b.
  std::unique_ptr<RecurrentWeights<T>> recurrent_;  ///< Product with the states, R h.

 private:
  mutable RecordedLoops records_;
};

extern template class GatedLayer<float>;
extern template class GatedLayer<double>;

}  // namespace orthornn
