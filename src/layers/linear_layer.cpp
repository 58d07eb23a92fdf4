#include "orthornn/layers/linear_layer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/set_zero.hpp"
#include "layers/affine_map.hpp"
#include "layers/initialization.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {

template <class T>
typename LinearLayer<T>::Places LinearLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                               const std::string& prefix, Index input_size,
                                                               Index output_size) {
  if (input_size < 1 || output_size < 1) {
    throw ValueError(fmt::format("a linear layer of {} inputs and {} outputs; expected at least 1 of each",
                                 input_size, output_size));
  }
  return {.weight = parameters.add(prefix + "/weight", {output_size, input_size}),
          .bias = parameters.add(prefix + "/bias", {output_size})};
}

template <class T>
LinearLayer<T>::LinearLayer(ParameterSet<T>& parameters, const std::string& prefix, Index input_size,
                            Index output_size, const Execution& execution)
    : Layer<T>(parameters, input_size, output_size),
      places_(add_parameters(parameters, prefix, input_size, output_size)),
      map_(std::make_unique<AffineMap<T>>(input_size, output_size, execution)) {
  this->parameters_added();
}

template <class T>
LinearLayer<T>::~LinearLayer() = default;

template <class T>
void LinearLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 3);
  draw_normal<T>(this->parameters_.value(places_.weight),
                 1 / std::sqrt(static_cast<double>(this->input_size())), random);
  set_zero(this->parameters_.value(places_.bias));
}

template <class T>
void LinearLayer<T>::run_prepare() {
  map_->forget();
}

template <class T>
TensorView<const T> LinearLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                                Saved& saved) const {
  const TensorView<T> y = saved.push<T>({input.length(), input.batch(), this->output_size()});
  map_->forward(input, this->value(places_.weight), this->value(places_.bias), y, saved);
  return y;
}

template <class T>
void LinearLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments, bool,
                                  Saved&, Saved& scratch) const {
  map_->backward(input, this->value(places_.weight), arguments.d_output,
                 {.weights = this->gradient(places_.weight),
                  .bias = this->gradient(places_.bias),
                  .input = arguments.d_input,
                  .mode = arguments.input},
                 scratch);
}

template class LinearLayer<float>;
template class LinearLayer<double>;

}  // namespace orthornn
