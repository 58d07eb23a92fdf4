#pragma once

#include <Eigen/Core>

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// A view as an Eigen expression, for element-wise work and for decompositions outside the training step.
template <class T>
auto eigen(MatrixView<T> m) {
  using Value = std::remove_const_t<T>;
  using Dense = Eigen::Matrix<Value, Eigen::Dynamic, Eigen::Dynamic>;
  using Mapped = std::conditional_t<std::is_const_v<T>, const Dense, Dense>;
  return Eigen::Map<Mapped, Eigen::Unaligned, Eigen::OuterStride<>>(m.data, m.rows, m.cols,
                                                                    Eigen::OuterStride<>(m.stride));
}

}  // namespace orthornn
