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

void throw_no_room_for_cluster(unsigned blocks) {
  throw DeviceError(
      fmt::format("this GPU has no room for a cluster of {} blocks (a part of a GPU, perhaps); choose the "
                  "stepwise rollout",
                  blocks));
}

}  // namespace orthornn::cuda
