#pragma once

#include <cstdint>

#include "orthornn/core/saved.hpp"

namespace orthornn {

/// sums [K, N]: to row k is added the sum of those rows of g [.., N] whose symbol is k. Other rows stay as
/// they are. Symbols outside 0 .. K - 1 count for nothing. The order of each sum depends on the symbols
/// alone. The CPU sums in double: a frequent symbol has so many terms that a float would lose them. The cost
/// depends on the rows of g and not on K. `scratch` is as it was when this returns. Throws ShapeError, also
/// for 2^32 rows of g or more.
template <class T>
void add_by_symbol(TensorView<const T> g, TensorView<const std::int32_t> symbols, TensorView<T> sums,
                   Saved& scratch);

}  // namespace orthornn
