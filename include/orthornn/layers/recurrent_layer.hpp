#pragma once
// The recurrent layers among LayerOptions: what a command line names.

#include "orthornn/layers/layer_options.hpp"

namespace orthornn {

/// Options of a recurrent layer of vectors: orthogonal, LSTM or GRU.
using RecurrentOptions = std::variant<OrthogonalCell, Lstm, Gru>;

/// The options of a recurrent layer as options of any layer.
inline LayerOptions layer_options(const RecurrentOptions& options) {
  return std::visit([](const auto& chosen) { return LayerOptions(chosen); }, options);
}

}  // namespace orthornn
