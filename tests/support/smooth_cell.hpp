#pragma once

#include "orthornn/layers/layer_options.hpp"

namespace orthornn::testing {

/// Its tanh is smooth, so that neither finite differences nor rounding errors meet a kink.
inline OrthogonalCell smooth_cell(Index hidden, TransitionOptions transition = Cwy{}) {
  return {.hidden_size = hidden, .transition = transition, .activation = Activation::tanh};
}

}  // namespace orthornn::testing
