#include "orthornn/layers/gated_mlp_layer.hpp"

#include <cmath>

#include "layers/affine_map.hpp"
#include "layers/checks.hpp"
#include "layers/initialization.hpp"
#include "linalg/lanes.hpp"
#include "orthornn/core/error.hpp"
#include "pointwise/gated_mlp.hpp"

namespace orthornn {
namespace {

/// inner [.., M] <- SiLU(a) c for rows [a; c] of [.., 2 M].
template <class T>
void gate(TensorView<const T> rows, TensorView<T> inner) {
  const Index size = inner.shape()[-1];
  for_each_entry_in_lanes<T>(inner.device(), size, inner.size() / size,
                             pointwise::SiluGate<T>{rows.data(), inner.data(), size});
}

/// d_rows [.., 2 M] <- its gradient from d_inner [.., M].
template <class T>
void gate_backward(TensorView<const T> rows, TensorView<const T> d_inner, TensorView<T> d_rows) {
  const Index size = d_inner.shape()[-1];
  for_each_entry_in_lanes<T>(
      d_rows.device(), size, d_inner.size() / size,
      pointwise::SiluGateBackward<T>{rows.data(), d_inner.data(), d_rows.data(), size});
}

/// M of a layer of K inputs.
Index inner_size(const GatedMlp& options, Index size) {
  if (options.mlp_size > 0) return options.mlp_size;
  return Shape{size / 3 + (size % 3 != 0), 8}.count();
}

}  // namespace

template <class T>
typename GatedMlpLayer<T>::Places GatedMlpLayer<T>::add_parameters(ParameterSet<T>& parameters,
                                                                   const std::string& prefix,
                                                                   const GatedMlp& options, Index size) {
  check_options<T>(options, size);
  const Index inner = inner_size(options, size);
  return {.input_weights = parameters.add(prefix + "/input_weights", {Shape{2, inner}.count(), size}),
          .output_weights = parameters.add(prefix + "/output_weights", {size, inner})};
}

template <class T>
GatedMlpLayer<T>::GatedMlpLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                const GatedMlp& options, Index size, const Execution& execution)
    : Layer<T>(parameters, size, size),
      inner_size_(inner_size(options, size)),
      places_(add_parameters(parameters, prefix, options, size)),
      input_map_(std::make_unique<AffineMap<T>>(size, 2 * inner_size_, execution)),
      output_map_(std::make_unique<AffineMap<T>>(inner_size_, size, execution)) {
  this->parameters_added();
}

template <class T>
GatedMlpLayer<T>::~GatedMlpLayer() = default;

template <class T>
void GatedMlpLayer<T>::initialize(std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::initialization, 7);
  draw_normal<T>(this->parameters_.value(places_.input_weights),
                 1 / std::sqrt(static_cast<double>(this->input_size())), random);
  draw_normal<T>(this->parameters_.value(places_.output_weights),
                 1 / std::sqrt(static_cast<double>(inner_size_)), random);
}

template <class T>
void GatedMlpLayer<T>::run_prepare() {
  input_map_->forget();
  output_map_->forget();
}

template <class T>
TensorView<const T> GatedMlpLayer<T>::run_forward(const SequenceInput<T>& input, States<const T>, States<T>,
                                                  Saved& saved) const {
  check_vectors(GatedMlp::name, input);
  const Index length = input.length(), batch = input.batch();
  const TensorView<T> rows = saved.push<T>({length, batch, 2 * inner_size_});
  const TensorView<T> inner = saved.push<T>({length, batch, inner_size_});
  const TensorView<T> y = saved.push<T>(input.vectors.shape());
  input_map_->forward(input, this->value(places_.input_weights), {}, rows, saved);
  gate<T>(rows, inner);
  output_map_->forward({.vectors = inner}, this->value(places_.output_weights), {}, y, saved);
  return y;
}

template <class T>
void GatedMlpLayer<T>::run_backward(const SequenceInput<T>& input, const BackwardArguments<T>& arguments,
                                    bool, Saved& saved, Saved& scratch) const {
  const TensorView<const T> rows = saved.top<T>(2), inner = saved.top<T>(1);
  const TensorView<T> d_inner = scratch.push<T>(inner.shape()), d_rows = scratch.push<T>(rows.shape());
  output_map_->backward({.vectors = inner}, this->value(places_.output_weights), arguments.d_output,
                        {.weights = this->gradient(places_.output_weights), .input = d_inner}, scratch);
  gate_backward<T>(rows, d_inner, d_rows);
  input_map_->backward(
      input, this->value(places_.input_weights), d_rows,
      {.weights = this->gradient(places_.input_weights), .input = arguments.d_input, .mode = arguments.input},
      scratch);
}

template class GatedMlpLayer<float>;
template class GatedMlpLayer<double>;

}  // namespace orthornn
