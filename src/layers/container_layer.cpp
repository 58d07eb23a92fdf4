#include "orthornn/layers/container_layer.hpp"

#include <algorithm>

#include "layers/initialization.hpp"
#include "layers/largest_orthogonality_error.hpp"

namespace orthornn {

template <class T>
ContainerLayer<T>::ContainerLayer(const char* kind, Layers&& layers, std::vector<std::string> state_prefixes,
                                  Index input_size, Index output_size)
    : Layer<T>(layers, input_size, output_size),
      kind_(kind),
      layers_(std::move(layers)),
      state_prefixes_(std::move(state_prefixes)) {
  for (const auto& layer : layers_) first_state_.push_back(first_state_.back() + layer->state_count());
}

template <class T>
std::size_t ContainerLayer<T>::layer_of_state(Index i) const {
  const auto next = std::upper_bound(first_state_.begin(), first_state_.end(), i);
  return static_cast<std::size_t>(next - first_state_.begin()) - 1;
}

template <class T>
Shape ContainerLayer<T>::state_shape(Index i, Index batch) const {
  const std::size_t k = layer_of_state(i);
  return layers_[k]->state_shape(i - first_state_[k], batch);
}

template <class T>
std::string ContainerLayer<T>::state_name(Index i) const {
  const std::size_t k = layer_of_state(i);
  return state_prefixes_[k] + layers_[k]->state_name(i - first_state_[k]);
}

template <class T>
bool ContainerLayer<T>::is_causal() const {
  return std::all_of(layers_.begin(), layers_.end(), [](const auto& layer) { return layer->is_causal(); });
}

template <class T>
void ContainerLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 5);
  for (const auto& layer : layers_) layer->initialize(draw_seed(random));
}

template <class T>
std::optional<Index> ContainerLayer<T>::launches(Index length, Index batch) const {
  Index all = 0;
  for (const auto& layer : layers_) {
    const std::optional<Index> more = layer->launches(length, batch);
    if (!more) return std::nullopt;
    all += *more;
  }
  return all;
}

template <class T>
LayerDescription ContainerLayer<T>::describe(Index length, Index batch) const {
  LayerDescription description = this->description(kind_);
  for (const auto& layer : layers_) description.layers.push_back(layer->describe(length, batch));
  return description;
}

template <class T>
std::optional<double> ContainerLayer<T>::orthogonality_error() {
  return largest_orthogonality_error(layers_);
}

template <class T>
void ContainerLayer<T>::run_initial_state(States<T> states) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i]->initial_state(states_of<T>(i, states));
}

template <class T>
void ContainerLayer<T>::run_prepare() {
  for (const auto& layer : layers_) layer->prepare();
}

template class ContainerLayer<float>;
template class ContainerLayer<double>;

}  // namespace orthornn
