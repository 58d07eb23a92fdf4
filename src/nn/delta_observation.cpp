#include "orthornn/nn/delta_observation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/live_steps.hpp"
#include "core/set_zero.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/delta/rotation_angle.hpp"
#include "orthornn/layers/container_layer.hpp"
#include "orthornn/linalg/effective_rank.hpp"

namespace orthornn {
namespace {

/// The same tokens, or none where there are none.
template <class U>
TensorView<U> tokens(TensorView<U> of_all, Index first, Index count) {
  return of_all.empty() ? of_all : of_all.slice(first, count);
}

template <class T>
DeltaProductInput<T> tokens(const DeltaProductInput<T>& all, Index first, Index count) {
  return {.queries = tokens(all.queries, first, count),
          .keys = tokens(all.keys, first, count),
          .values = tokens(all.values, first, count),
          .betas = tokens(all.betas, first, count),
          .log_decays = tokens(all.log_decays, first, count),
          .removals = tokens(all.removals, first, count),
          .initial_states = all.initial_states};
}

/// From step to step that is asked for.
template <class T>
void add_ranks(const DeltaProductInput<T>& steps, std::span<const Index> rank_steps, DeltaObservation& to) {
  const Index length = steps.keys.shape()[0], heads = steps.keys.shape()[2];
  Tensor<T> states(Shape{1, heads, to.key_size, to.value_size});
  Tensor<T> outputs(Shape{length, heads, to.value_size});
  steps.initial_states.empty() ? set_zero(states.view()) : copy<T>(steps.initial_states, states);
  Saved scratch(Device::cpu());
  Index done = 0;
  for (const Index step : rank_steps) {
    if (step >= length) break;
    const Index count = step + 1 - done;
    DeltaProductInput<T> part = tokens(steps, done, count);
    part.initial_states = states;
    delta_product<T>(part, TokenLayout::time_major(count, 1), {.form = DeltaForm::recurrent},
                     outputs.view().slice(0, count), states, scratch);
    done = step + 1;
    for (Index h = 0; h < heads; ++h)
      to.heads[static_cast<std::size_t>(h)].ranks.push_back(
          effective_rank<T>(std::as_const(states).view()[0][h]));
  }
}

template <class T>
DeltaObservation observe(const std::string& layer, const DeltaProductInput<T>& steps,
                         std::span<const Index> rank_steps) {
  const Shape shape = steps.keys.shape();
  const Index length = shape[0], factors = shape[1], heads = shape[2];
  DeltaObservation found{.layer = layer,
                         .factors = factors,
                         .key_size = shape[3],
                         .value_size = steps.values.shape()[3],
                         .has_angles = factors == 2 && steps.removals.empty(),
                         .heads = std::vector<DeltaHeadObservation>(static_cast<std::size_t>(heads))};
  for (Index h = 0; h < heads; ++h) {
    DeltaHeadObservation& head = found.heads[static_cast<std::size_t>(h)];
    for (Index t = 0; t < length; ++t) {
      for (Index j = 0; j < factors; ++j) {
        head.betas.push_back(static_cast<double>(steps.betas(t, j, h)));
        if (!std::isfinite(head.betas.back()))
          throw ValueError(layer + ": a step size is not finite; expected numbers from 0 to 2");
      }
      if (!found.has_angles) continue;
      const auto factor = [&](Index j) {
        return DeltaFactor<T>{.key = steps.keys[t][j][h], .beta = steps.betas(t, j, h)};
      };
      const std::optional<double> angle = rotation_angle<T>(factor(0), factor(1));
      if (angle) head.angles.push_back(*angle);
      if (!angle) ++head.real_steps;
    }
  }
  add_ranks(steps, rank_steps, found);
  return found;
}

}  // namespace

template <class T>
std::vector<DeltaObservation> observe_delta_products(SequenceModel<T>& model, const Batch& batch,
                                                     std::span<const Index> rank_steps) {
  if (model.device() != Device::cpu())
    throw DeviceError("delta products are observed on the CPU; load the model there");
  model.forward(batch);
  const ConstTensorView<std::int32_t> lengths = batch.integers(batch_names::lengths);
  std::vector<DeltaObservation> found;
  for (Index i = 0; i < model.cell_count(); ++i) {
    each_layer_of<DeltaProductLayer<T>>(model.cell(i), [&](const DeltaProductLayer<T>& layer) {
      const Saved::Frame& frame = model.saved().frame_of(&layer);
      if (frame.batch != 1)
        throw ShapeError(fmt::format("{} sequences were given; expected one to observe", frame.batch));
      const Index live = live_steps(lengths, frame.length, 0);
      found.push_back(observe<T>(layer.prefix(), tokens(layer.factors(model.saved()), 0, live), rank_steps));
    });
  }
  return found;
}

template std::vector<DeltaObservation> observe_delta_products<float>(SequenceModel<float>&, const Batch&,
                                                                     std::span<const Index>);
template std::vector<DeltaObservation> observe_delta_products<double>(SequenceModel<double>&, const Batch&,
                                                                      std::span<const Index>);

}  // namespace orthornn
