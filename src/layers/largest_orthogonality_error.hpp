#pragma once

#include <cmath>
#include <optional>

namespace orthornn {

/// The largest of `Layer::orthogonality_error` of all layers; none where none has one. A NaN is larger than
/// all.
template <class Layers>
std::optional<double> largest_orthogonality_error(const Layers& layers) {
  std::optional<double> largest;
  for (const auto& layer : layers) {
    const std::optional<double> error = layer->orthogonality_error();
    // A NaN must not be lost in a maximum.
    if (error && !(largest && *error <= *largest)) largest = error;
    if (largest && std::isnan(*largest)) break;
  }
  return largest;
}

}  // namespace orthornn
