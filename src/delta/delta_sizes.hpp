#pragma once

#include "orthornn/delta/delta_product.hpp"

namespace orthornn {

/// n, H, K and V of a delta product.
struct DeltaSizes {
  Index factors, heads, key, value;

  template <class T>
  explicit DeltaSizes(const DeltaProductInput<T>& input)
      : factors(input.keys.shape()[1]),
        heads(input.keys.shape()[2]),
        key(input.keys.shape()[3]),
        value(input.values.shape()[3]) {}
};

}  // namespace orthornn
