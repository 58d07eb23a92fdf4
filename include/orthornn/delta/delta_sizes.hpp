#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Sizes of a delta product, as integers I. It is constexpr, so that kernels can use it.
template <class I>
struct BasicDeltaSizes {
  I factors,  ///< Number n of factors a token.
      heads,  ///< Number H of heads.
      key,    ///< Size K of a key.
      value;  ///< Size V of a value.

  /// Converts the sizes to integers J. That they fit is not checked.
  template <class J>
  constexpr BasicDeltaSizes<J> as() const {
    return {static_cast<J>(factors), static_cast<J>(heads), static_cast<J>(key), static_cast<J>(value)};
  }
};

/// Sizes of a delta product.
using DeltaSizes = BasicDeltaSizes<Index>;

}  // namespace orthornn
