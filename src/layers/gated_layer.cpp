#include "orthornn/layers/gated_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/fill_on_host.hpp"
#include "layers/affine_map.hpp"
#include "layers/recurrent_weights.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

// A product, which may be three kernels, and a pointwise one.
constexpr Index launches_of_step = 4;

}  // namespace

template <class T>
typename GatedLayer<T>::Places GatedLayer<T>::add_gates(ParameterSet<T>& parameters,
                                                        const std::string& prefix, const char* kind,
                                                        Index gates, Index hidden_size, Index input_size) {
  if (input_size < 1 || hidden_size < 1) {
    throw ValueError(fmt::format("{}: {} inputs and hidden size {}; expected at least 1 of each", kind,
                                 input_size, hidden_size));
  }
  const Index rows = Shape{gates, hidden_size}.count();
  return {.input_weights = parameters.add(prefix + "/input_weights", {rows, input_size}),
          .input_bias = parameters.add(prefix + "/input_bias", {rows}),
          .recurrent_weights = parameters.add(prefix + "/recurrent_weights", {rows, hidden_size}),
          .recurrent_bias = parameters.add(prefix + "/recurrent_bias", {rows})};
}

template <class T>
GatedLayer<T>::GatedLayer(ParameterSet<T>& parameters, const std::string& prefix, const char* kind,
                          Index gates, Index hidden_size, Index input_size, const Execution& execution)
    : Layer<T>(parameters, input_size, hidden_size),
      kind_(kind),
      execution_(execution),
      places_(add_gates(parameters, prefix, kind, gates, hidden_size, input_size)),
      input_map_(std::make_unique<AffineMap<T>>(input_size, gates * hidden_size, execution)),
      recurrent_(std::make_unique<RecurrentWeights<T>>(execution)) {
  this->parameters_added();
}

template <class T>
GatedLayer<T>::~GatedLayer() = default;

template <class T>
void GatedLayer<T>::initialize(std::uint64_t seed) {
  const double bound = 1 / std::sqrt(static_cast<double>(this->output_size()));
  RandomStream random(seed, RandomPurpose::initialization, 1);
  for (const Index place :
       {places_.input_weights, places_.input_bias, places_.recurrent_weights, places_.recurrent_bias}) {
    fill_on_host(this->parameters_.value(place), [&](TensorView<T> values) {
      for (T& w : values) w = static_cast<T>(random.uniform(-bound, bound));
    });
  }
}

template <class T>
void GatedLayer<T>::run_prepare() {
  input_map_->forget();
  recurrent_->prepare(this->value(places_.recurrent_weights));
}

template <class T>
std::optional<Index> GatedLayer<T>::launches(Index length, Index) const {
  return std::min(length, RecordedLoops::most_launches) * launches_of_step;
}

template <class T>
LayerDescription GatedLayer<T>::describe(Index, Index) const {
  const RolloutWay way = execution_.rollout;
  if (way != RolloutWay::automatic && way != RolloutWay::stepwise) {
    throw ValueError(
        fmt::format("the rollout cannot be {}: {} goes step by step; use automatic", name_of(way), kind_));
  }
  return {.kind = kind_,
          .input_size = this->input_size(),
          .output_size = this->output_size(),
          .rollout = name_of(RolloutWay::stepwise)};
}

template <class T>
void GatedLayer<T>::run_steps(Index length, RecordedLoops::Key key,
                              const std::function<void()>& steps) const {
  if (*launches(length, 1) > RecordedLoops::most_launches) return steps();
  records_.run(execution_.device, std::move(key), steps);
}

template class GatedLayer<float>;
template class GatedLayer<double>;

}  // namespace orthornn
