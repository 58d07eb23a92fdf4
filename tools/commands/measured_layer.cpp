#include "commands/measured_layer.hpp"

#include <algorithm>

#include "commands/timing.hpp"

namespace orthornn::program {
namespace {

bool recordable(const Layer<float>& layer, Index length, Index batch) {
  const std::optional<Index> launches = layer.launches(length, batch);
  return launches && *launches <= RecordedLoops::most_launches;
}

}  // namespace

RecurrentOptions BenchLayer::with(Index hidden) const {
  RecurrentOptions sized = options;
  std::visit([&](auto& own) { own.hidden_size = hidden; }, sized);
  return sized;
}

const std::vector<BenchLayer>& bench_layers() {
  static const std::vector<BenchLayer> layers = {{Lstm::name, "LSTM", Lstm{}, 4},
                                                 {Gru::name, "GRU", Gru{}, 3}};
  return layers;
}

const BenchLayer* find_bench_layer(const std::string& name) {
  const auto found = std::find_if(bench_layers().begin(), bench_layers().end(),
                                  [&](const BenchLayer& layer) { return layer.name == name; });
  return found == bench_layers().end() ? nullptr : &*found;
}

MeasuredLayer::MeasuredLayer(const BenchLayer& kind, Index hidden, Index length, Index batch,
                             const Execution& execution)
    : kind_(kind),
      layer_(
          make_layer(parameters_, "layer", layer_options(kind.with(hidden)), measured_input_size, execution)),
      input_({length, batch, measured_input_size}, execution.device),
      d_input_(input_.shape(), execution.device),
      d_output_({length, batch, hidden}, execution.device),
      work_d_output_(d_output_.shape(), execution.device),
      states_(execution.device),
      saved_(execution.device),
      scratch_(execution.device),
      pass_(execution.device, recordable(*layer_, length, batch),
            {.restore = [this] { copy<float>(d_output_, work_d_output_); },
             .forward = [this] { forward(); },
             .backward = [this] { backward(); }}) {
  parameters_.allocate(execution.device);
  layer_->initialize(1);
  last_ = make_states();
  d_start_ = make_states();
  fill_normal(input_, 3);
  fill_normal(d_output_, 4);
}

std::vector<TensorView<float>> MeasuredLayer::make_states() {
  std::vector<TensorView<float>> states;
  for (Index i = 0; i < layer_->state_count(); ++i)
    states.push_back(states_.push<float>(layer_->state_shape(i, input_.shape()[1])));
  return states;
}

void MeasuredLayer::forward() {
  saved_.clear();  // a forward that is timed alone has no backward
  layer_->prepare();
  layer_->forward({.vectors = input_}, {}, last_, saved_);
}

void MeasuredLayer::backward() {
  layer_->backward({.vectors = input_},
                   {.d_output = work_d_output_, .d_input = d_input_, .d_start = d_start_}, saved_, scratch_);
}

double MeasuredLayer::flops() const {
  return flops_of_gates(kind_.gates, hidden_size(), input_.shape()[0], input_.shape()[1]);
}

nlohmann::ordered_json MeasuredLayer::details() {
  return {{"rollout", description().rollout}, {"input_size", measured_input_size}};
}

}  // namespace orthornn::program
