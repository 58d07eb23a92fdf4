#include "orthornn/core/recorded_loops.hpp"

#include <algorithm>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/graph.hpp"

namespace orthornn {

void RecordedLoops::run(Device device, Key key, const std::function<void()>& steps) {
  if (!device.is_cuda()) return steps();
  if constexpr (has_cuda_bodies) {
    // The code below may destroy a graph, which is forbidden during a capture.
    if (cuda::is_recording(device)) return steps();
  }
  auto found = std::ranges::find(loops_, key, &Loop::key);
  if (found == loops_.end()) {
    if (loops_.size() == most_) loops_.pop_back();
    found = loops_.insert(loops_.end(), Loop{std::move(key), RepeatedOperations(device)});
  }
  // The last used first.
  std::rotate(loops_.begin(), found, found + 1);
  loops_.front().operations.run(steps);
}

void RecordedLoops::forget(const Key& key) {
  for (Loop& loop : loops_) {
    if (loop.key == key) loop.operations.forget();
  }
}

}  // namespace orthornn
