#pragma once

#include <cstdint>

#include "orthornn/core/shape.hpp"
#include "orthornn/scalar/dropout_mask.hpp"

namespace orthornn::pointwise {

/// to <- (or +=) from times the mask and its scale; `key` [1]. Entry i is a block of Philox, whose draws
/// decide on `DropoutMask::group` numbers.
template <class T>
struct Drop {
  DropoutMask mask;
  const std::uint64_t* key;
  const T* from;
  T* to;
  Index count;
  bool adds;

  constexpr void operator()(Index i) const {
    constexpr Index group = DropoutMask::group;
    const auto keeps = mask.keeps(*key, i);
    const T scale = static_cast<T>(mask.scale);
    for (Index k = 0; k < group && i * group + k < count; ++k) {
      const Index at = i * group + k;
      const T kept = keeps[static_cast<std::size_t>(k)] ? from[at] * scale : T{0};
      to[at] = adds ? to[at] + kept : kept;
    }
  }
};

}  // namespace orthornn::pointwise
