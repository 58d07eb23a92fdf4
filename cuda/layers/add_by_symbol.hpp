#pragma once

#include <cstdint>

#include "orthornn/core/saved.hpp"

namespace orthornn::cuda {

/// As that of orthornn, in device memory; g is not empty.
template <class T>
void add_by_symbol(TensorView<const T> g, TensorView<const std::int32_t> symbols, TensorView<T> sums,
                   Saved& scratch);

}  // namespace orthornn::cuda
