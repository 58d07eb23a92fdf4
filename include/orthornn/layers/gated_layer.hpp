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

/// What LSTM and GRU share: G gates of N units, blocks of N rows in PyTorch's order.
///
/// PREFIX/input_weights [GN, K], input_bias [GN]: W and b
/// PREFIX/recurrent_weights [GN, N], recurrent_bias [GN]: R and b'
///
/// On a GPU a step is a product and a pointwise kernel, recorded: RolloutWay::stepwise.
template <class T>
class GatedLayer : public Layer<T> {
 public:
  ~GatedLayer() override;

  Shape state_shape(Index, Index batch) const override { return {batch, this->output_size()}; }
  /// All from U(-1 / sqrt(N), 1 / sqrt(N)), as PyTorch.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  /// Throws ValueError for a rollout that is neither automatic nor stepwise.
  LayerDescription describe(Index length, Index batch) const override;

 protected:
  /// Where a layer's parameters are in the set.
  struct Places {
    Index input_weights, input_bias, recurrent_weights, recurrent_bias;
  };
  static Places add_gates(ParameterSet<T>& parameters, const std::string& prefix, const char* kind,
                          Index gates, Index hidden_size, Index input_size);

  GatedLayer(ParameterSet<T>& parameters, const std::string& prefix, const char* kind, Index gates,
             Index hidden_size, Index input_size, const Execution& execution);

  void run_prepare() override;
  /// Runs the loop of a forward or a backward on a GPU, recorded where a graph can hold it.
  void run_steps(Index length, RecordedLoops::Key key, const std::function<void()>& steps) const;
  /// The same as an object, for so many steps.
  auto steps_of(Index length) const {
    return [this, length](RecordedLoops::Key key, const std::function<void()>& steps) {
      run_steps(length, std::move(key), steps);
    };
  }

  const char* kind_;
  Execution execution_;
  Places places_;
  std::unique_ptr<AffineMap<T>> input_map_;
  std::unique_ptr<RecurrentWeights<T>> recurrent_;

 private:
  mutable RecordedLoops records_;
};

extern template class GatedLayer<float>;
extern template class GatedLayer<double>;

}  // namespace orthornn
