#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "core/back_end.hpp"
#include "cuda/layers/affine_map.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Throws ValueError for a length outside 0 .. `most`; on a GPU the next call that waits does.
inline void check_lengths(TensorView<const std::int32_t> lengths, Index most) {
  if (lengths.empty()) return;
  if constexpr (has_cuda_bodies) {
    if (lengths.device().is_cuda()) return cuda::check_lengths(lengths, most);
  }
  for (const std::int32_t live : lengths) {
    if (live < 0 || live > most) throw ValueError(fmt::format("length {}; expected 0 to {}", live, most));
  }
}

}  // namespace orthornn
