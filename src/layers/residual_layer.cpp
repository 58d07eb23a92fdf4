#include "orthornn/layers/residual_layer.hpp"

#include <fmt/format.h>

#include "layers/checks.hpp"
#include "linalg/elementwise.hpp"

namespace orthornn {
namespace {

constexpr const char* kind = "residual";

template <class T>
std::vector<std::unique_ptr<Layer<T>>> only(std::unique_ptr<Layer<T>> f) {
  ResidualLayer<T>::check_sizes(f->input_size(), f->output_size());
  std::vector<std::unique_ptr<Layer<T>>> layers;
  layers.push_back(std::move(f));
  return layers;
}

}  // namespace

template <class T>
void ResidualLayer<T>::check_sizes(Index input_size, Index output_size) {
  if (input_size == output_size) return;
  throw ValueError(fmt::format(
      "the layers of a residual read {} numbers a step and return {}; expected as many, to add them",
      input_size, output_size));
}

template <class T>
ResidualLayer<T>::ResidualLayer(std::unique_ptr<Layer<T>> f) : ResidualLayer(only<T>(std::move(f))) {}

template <class T>
ResidualLayer<T>::ResidualLayer(Layers layers)
    : ContainerLayer<T>(kind, std::move(layers), {""}, layers[0]->input_size(), layers[0]->output_size()) {}

template <class T>
TensorView<const T> ResidualLayer<T>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                  States<T> last, Saved& saved) const {
  check_vectors(kind, input);
  const TensorView<const T> change = this->layers()[0]->forward(input, start, last, saved);
  const TensorView<T> y = saved.push<T>(change.shape());
  for_each(y.device(), y.size(), pointwise::Sum<T>{input.vectors.data(), change.data(), y.data()});
  return y;
}

template <class T>
void ResidualLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                    bool, Saved& saved, Saved& scratch) const {
  saved.open_frame(this);
  saved.pop(1);  // y
  // The gradient goes past f before f uses its memory.
  if (!arguments.d_input.empty())
    copy_or_add<T>(arguments.d_output, arguments.d_input, arguments.input == Gradients::add);
  BackwardArguments<T> own = arguments;
  own.input = Gradients::add;
  own.parameters = Gradients::overwrite;
  this->layers()[0]->backward(input, own, saved, scratch);
}

template class ResidualLayer<float>;
template class ResidualLayer<double>;

}  // namespace orthornn
