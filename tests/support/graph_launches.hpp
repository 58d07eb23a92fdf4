#pragma once

#include <cstdint>

#include "core/back_end.hpp"
#include "cuda/core/graph.hpp"

namespace orthornn::testing {

/// How often recorded work has been launched on a GPU so far; 0 in a build without GPUs.
inline std::uint64_t graph_launches() {
  if constexpr (has_cuda_bodies) return cuda::graph_launches();
  return 0;
}

}  // namespace orthornn::testing
