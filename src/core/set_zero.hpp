#pragma once

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// x <- 0, on any device; does not synchronize.
template <class T>
void set_zero(TensorView<T> x) {
  detail::fill_zero(x.device(), x.data(), static_cast<std::size_t>(x.size()) * sizeof(T));
}

}  // namespace orthornn
