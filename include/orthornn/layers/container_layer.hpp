#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// Base of layers that are made of other layers, called inner layers. It has the parameters and the states of
/// its inner layers, in their order, and none of its own.
template <class T>
class ContainerLayer : public Layer<T> {
 public:
  /// Inner layers with their owners.
  using Layers = std::vector<std::unique_ptr<Layer<T>>>;

  /// The inner layers.
  const Layers& layers() const { return layers_; }

  Index state_count() const override { return first_state_.back(); }
  Shape state_shape(Index i, Index batch) const override;
  std::string state_name(Index i) const override;
  bool is_causal() const override;
  /// Draws the parameters of all inner layers, each with a seed of its own.
  void initialize(std::uint64_t seed) override;
  std::optional<Index> launches(Index length, Index batch) const override;
  LayerDescription describe(Index length, Index batch) const override;
  /// Largest orthogonality error of the inner layers; no value where no inner layer has one.
  std::optional<double> orthogonality_error() override;

 protected:
  /// Joins layers. `state_prefixes` has for each layer what comes before the names of its states. Throws as
  /// the constructor of Layer.
  ContainerLayer(const char* kind, Layers&& layers, std::vector<std::string> state_prefixes, Index input_size,
                 Index output_size);

  /// The states of inner layer i among the states of all; empty where there are none.
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
  /// For each layer the number of its first state among the states of all, and at the end their number.
  std::vector<Index> first_state_ = {0};
};

extern template class ContainerLayer<float>;
extern template class ContainerLayer<double>;

/// Calls visit(layer) for a layer if it is of the class Kind, and for each such layer within it, in their
/// order.
template <class Kind, class T, class Visit>
void each_layer_of(const Layer<T>& layer, const Visit& visit) {
  if (const auto* found = dynamic_cast<const Kind*>(&layer)) visit(*found);
  if (const auto* container = dynamic_cast<const ContainerLayer<T>*>(&layer)) {
    for (const auto& inner : container->layers()) each_layer_of<Kind>(*inner, visit);
  }
}

}  // namespace orthornn
