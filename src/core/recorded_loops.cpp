#include "orthornn/core/recorded_loops.hpp"

#include <algorithm>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/graph.hpp"

namespace orthornn {
namespace {

// Forward and backward, of training and of evaluation, and of a layer that runs several times in a step.
constexpr std::size_t most_loops = 16;

}  // namespace

void RecordedLoops::run(Device device, Key key, const std::function<void()>& steps) {
  if (!device.is_cuda()) return steps();
  if constexpr (has_cuda_bodies) {
    // The code below may destroy a graph, which is forbidden during a capture.
    if (cuda::is_recording(device)) return steps();
  }
  auto found = std::find_if(loops_.begin(), loops_.end(), [&](const Loop& loop) { return loop.key == key; });
  if (found == loops_.end()) {
    if (loops_.size() == most_loops) loops_.pop_back();
    found = loops_.insert(loops_.end(), Loop{std::move(key), RepeatedOperations(device)});
  }
  // The last used first.
  std::rotate(loops_.begin(), found, found + 1);
  loops_.front().operations.run(steps);
}

}  // namespace orthornn
