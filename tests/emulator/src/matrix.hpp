#pragma once

#include <Eigen/Dense>
#include <algorithm>
#include <cstdint>

#include "runtime.hpp"

namespace orthornn::emulator {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

/// A matrix of a library's caller, stored by columns.
template <class T>
auto map(T* data, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  using Plain = Matrix<std::remove_const_t<T>>;
  using Constant = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Constant, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(leading));
}

/// Fails unless all of the matrix lies in device memory.
inline void require_matrix(const void* data, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                           std::size_t element_bytes, const char* what) {
  if (rows <= 0 || columns <= 0) return;
  require_device_memory(data, static_cast<std::size_t>((columns - 1) * leading + rows) * element_bytes, what);
}

}  // namespace orthornn::emulator
