#include "cuda/core/launch.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

unsigned grid_size(Index blocks) {
  constexpr Index most = std::numeric_limits<std::int32_t>::max();
  if (blocks <= most) return static_cast<unsigned>(blocks);
  throw ValueError(fmt::format("an operation needs {} blocks of a GPU, which takes {}; use a smaller batch",
                               blocks, most));
}

}  // namespace orthornn::cuda
