#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// What layers made of others share. Parameters are theirs; so are states, those of the first layer first.
template <class T>
class ContainerLayer : public Layer<T> {
 public:
  using Layers = std::vector<std::unique_ptr<Layer<T>>>;

  const Layers& layers() const { return layers_; }

  Index state_count() const override { return first_state_.back(); }
  Shape state_shape(Index i, Index batch) const override;
  std::string state_name(Index i) const override;
  bool is_causal() const override;
  /// Each layer gets a seed of its own.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  LayerDescription describe(Index length, Index batch) const override;
  /// The largest of the layers'.
  std::optional<double> orthogonality_error() override;

 protected:
  /// `state_prefixes`: what comes before the names of each layer's states. Throws as Layer.
  ContainerLayer(const char* kind, Layers&& layers, std::vector<std::string> state_prefixes, Index input_size,
                 Index output_size);

  /// Those of all states that are layer i's; empty for no states.
  template <class U>
  States<U> states_of(std::size_t i, States<U> states) const {
    if (states.empty()) return {};
    return states.subspan(static_cast<std::size_t>(first_state_[i]),
                          static_cast<std::size_t>(first_state_[i + 1] - first_state_[i]));
  }

 private:
  /// Which layer has state i.
  std::size_t layer_of_state(Index i) const;
  void run_initial_state(States<T> states) const override;
  void run_prepare() override;

  const char* kind_;
  Layers layers_;
  std::vector<std::string> state_prefixes_;
  /// For each layer the first of its states among those of all, and at the end their number.
  std::vector<Index> first_state_ = {0};
};

extern template class ContainerLayer<float>;
extern template class ContainerLayer<double>;

}  // namespace orthornn
