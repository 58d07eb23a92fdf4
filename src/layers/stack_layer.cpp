#include "orthornn/layers/stack_layer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

/// The layers, whose sizes fit.
template <class T>
typename StackLayer<T>::Layers& checked(typename StackLayer<T>::Layers& layers) {
  if (layers.empty()) throw ValueError("a stack of no layers; expected at least one");
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const Index given = layers[i - 1]->output_size(), read = layers[i]->input_size();
    if (given == read) continue;
    throw ValueError(fmt::format("layer {} of a stack reads {} numbers a step, but layer {} returns {}", i,
                                 read, i - 1, given));
  }
  return layers;
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> prefixes;
  for (std::size_t i = 0; i < count; ++i) prefixes.push_back(fmt::format("{}.", i));
  return prefixes;
}

}  // namespace

template <class T>
StackLayer<T>::StackLayer(Layers layers)
    // Braces: the check comes first.
    : ContainerLayer<T>{"stack", std::move(checked<T>(layers)), numbered(layers.size()),
                        layers.front()->input_size(), layers.back()->output_size()} {}

template <class T>
TensorView<const T> StackLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                               States<T> last, Saved& saved) const {
  SequenceInput<T> read = input;
  for (std::size_t i = 0; i < this->layers().size(); ++i) {
    const TensorView<const T> y = this->layers()[i]->forward(
        read, this->template states_of<const T>(i, start), this->template states_of<T>(i, last), saved);
    read = input.with_vectors(y);
  }
  return read.vectors;
}

template <class T>
void StackLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool,
                                 Saved& saved, Saved& scratch) const {
  const auto& layers = this->layers();
  const Index length = input.length(), batch = input.batch();
  saved.open_frame(this);
  // 1. Two buffers in turn for the gradients between the layers.
  Index widest = 0;
  for (std::size_t i = 1; i < layers.size(); ++i) widest = std::max(widest, layers[i]->input_size());
  TensorView<T> buffers[2];
  for (std::size_t i = 0; i < 2 && i + 1 < layers.size(); ++i)
    buffers[i] = scratch.push<T>({length, batch, widest});
  // 2. The layers, the last first.
  TensorView<T> d_output = arguments.d_output;
  for (std::size_t i = layers.size(); i-- > 0;) {
    const Layer<T>& layer = *layers[i];
    SequenceInput<T> read = input;
    const bool is_last = i + 1 == layers.size();
    BackwardArguments<T> own{.d_output = d_output,
                             .d_output_is_zero = is_last && arguments.d_output_is_zero,
                             .d_last = this->template states_of<const T>(i, arguments.d_last),
                             .d_input = arguments.d_input,
                             .d_start = this->template states_of<T>(i, arguments.d_start),
                             .input = arguments.input};
    if (i > 0) {
      const Shape shape{length, batch, layer.input_size()};
      const void* y = saved.frame_below(saved.last_frame(&layer).first, layers[i - 1].get()).output;
      read = input.with_vectors({static_cast<const T*>(y), shape, saved.device()});
      own.d_input = {buffers[(i - 1) % 2].data(), shape, saved.device()};
      own.input = Gradients::overwrite;
    }
    layer.backward(read, own, saved, scratch);
    d_output = own.d_input;
  }
}

template class StackLayer<float>;
template class StackLayer<double>;

}  // namespace orthornn
