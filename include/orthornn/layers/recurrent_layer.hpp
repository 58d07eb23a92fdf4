#pragma once
// The recurrent layers among LayerOptions: what a command line names.

#include "orthornn/layers/layer_options.hpp"

namespace orthornn {

/// A recurrent layer as plain values.
using RecurrentOptions = std::variant<OrthogonalCell, Lstm, Gru>;

inline LayerOptions layer_options(const RecurrentOptions& options) {
  return std::visit([](const auto& chosen) { return LayerOptions(chosen); }, options);
}

}  // namespace orthornn
