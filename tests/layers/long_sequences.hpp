#pragma once

#include <utility>

#include "layers/all_layers.hpp"
#include "support/layer_case.hpp"

namespace orthornn::testing {

/// Checks that a recurrence takes more than 65,535 steps, the most of other libraries and of two dimensions
/// of a grid of blocks: the outputs, the last states and the gradients of the last steps are those of a short
/// sequence that begins in the states before them.
inline void check_long_sequences(Device device) {
  constexpr Index outputs = 5, inputs = 3, length = 65'550, last_steps = 20,
                  first_steps = length - last_steps;
  // The steps are the same ones; sums of a product may have another order.
  const double bound = 4 * static_cast<double>(last_steps) * tolerance::rounding<float>(outputs + last_steps);
  for (const LayerKind<float>& kind : all_layers<float>(inputs, outputs)) {
    if (kind.name != "orthogonal" && kind.name != "orthogonal, factored" && kind.name != "lstm" &&
        kind.name != "gru")
      continue;
    CAPTURE(kind.name);
    LayerCase<float> whole(kind.make(device), length, 1, false, device),
        end(kind.make(device), last_steps, 1, false, device);
    whole.forward();
    whole.backward();
    const auto steps = [&](auto tensor) { return tensor.slice(first_steps, last_steps); };
    copy<float>(whole.parameters.values(), end.parameters.values());
    copy<float>(steps(std::as_const(whole.x).view()), end.x);
    copy<float>(steps(std::as_const(whole.dy).view()), end.dy);
    for (std::size_t i = 0; i < end.d_last.size(); ++i) copy<float>(whole.d_last[i], end.d_last[i]);
    Saved saved(device);
    whole.layer->forward({.vectors = whole.input().vectors.slice(0, first_steps)}, whole.start_views(),
                         views_of(end.start), saved);
    end.forward();
    end.backward();
    const auto on_host = [](TensorView<const float> x) {
      Tensor<float> here(x.shape());
      copy<float>(x, here);
      return here;
    };
    CHECK(relative_error(on_host(steps(std::as_const(whole.y).view())), on_host(end.y)) <= bound);
    CHECK(relative_error(on_host(steps(std::as_const(whole.dx).view())), on_host(end.dx)) <= bound);
    for (std::size_t i = 0; i < end.last.size(); ++i)
      CHECK(relative_error(on_host(whole.last[i]), on_host(end.last[i])) <= bound);
  }
}

}  // namespace orthornn::testing
