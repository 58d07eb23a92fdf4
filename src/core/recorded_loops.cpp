#include "orthornn/core/recorded_loops.hpp"

#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/graph.hpp"

namespace orthornn {
namespace {

// Forward and backward, each with the sizes of training and of evaluation.
constexpr std::size_t most_loops = 4;

}  // namespace

void RecordedLoops::run(Device device, Key key, const std::function<void()>& steps) {
  if constexpr (has_cuda_bodies) {
    // The code below may destroy a graph, which is forbidden during a capture.
    if (device.is_cuda() && cuda::is_recording(device)) return steps();
  }
  if (!device.is_cuda()) return steps();
  for (Loop& known : loops_) {
    if (known.key == key) return known.operations.run(steps);
  }
  Loop loop{std::move(key), RepeatedOperations(device)};
  if (loops_.size() < most_loops) {
    loops_.push_back(std::move(loop));
    return loops_.back().operations.run(steps);
  }
  Loop& replaced = loops_[oldest_];
  oldest_ = (oldest_ + 1) % most_loops;
  replaced = std::move(loop);
  replaced.operations.run(steps);
}

}  // namespace orthornn
