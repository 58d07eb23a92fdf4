#pragma once

#include <optional>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// A factor I - beta k k^T.
template <class T>
struct DeltaFactor {
  /// Key k [K], in host memory.
  TensorView<const T> key;
  /// Step size.
  T beta;
};

/// Angle in radians, in (0, pi), by which the product of two factors turns the plane of their keys, up to a
/// change of basis: its eigenvalues there are |z| e^(i angle) and |z| e^(-i angle); the others are 1. Returns
/// nothing where all eigenvalues are real, as for every step size up to 1. With two step sizes of 2 and keys
/// of norm 1 the product is a rotation by twice the angle between the keys (docs/math.md, section 5.7; Grazzi
/// et al., ICLR 2025, arXiv 2411.12537; the condition is that of Siems et al., NeurIPS 2025, arXiv
/// 2502.10297). A key of another norm counts as a key of norm 1 whose step size is beta times the square of
/// that norm. Throws ShapeError for keys of different sizes.
template <class T>
std::optional<double> rotation_angle(const DeltaFactor<T>& first, const DeltaFactor<T>& second);

}  // namespace orthornn
