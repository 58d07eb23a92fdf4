#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "orthornn/core/repeated_operations.hpp"

namespace orthornn {

/// Recordings of loops of thousands of launches, such as a rollout or a training step. Launches one by one
/// take the host longer than the GPU; a recorded loop is one launch. The CPU runs a loop as it is.
class RecordedLoops {
 public:
  /// Addresses and sizes that decide what a loop does. Addresses that change by allocations alone need not be
  /// in the key: RepeatedOperations notices allocations.
  using Key = std::vector<std::uintptr_t>;

  /// Most launches of a loop that is recorded: a CUDA graph of more takes too long to make, and too much
  /// memory.
  static constexpr std::int64_t most_launches = 100'000;
  /// Number of recordings that are kept by default. It is enough for forward and backward of a training and
  /// of an evaluation, and for a layer that runs several times in a step.
  static constexpr std::size_t default_most = 16;

  /// Keeps `default_most` recordings.
  RecordedLoops() = default;
  /// Keeps at most `most` recordings, the last used ones.
  explicit RecordedLoops(std::size_t most) : most_(most) {}

  /// Runs `steps` as RepeatedOperations::run does: the loop of a key is recorded when it comes for the second
  /// time. Within another recording the steps become part of that recording.
  void run(Device device, Key key, const std::function<void()>& steps);
  /// Drops the recording of this key; the next two runs are as the first two.
  void forget(const Key& key);

 private:
  struct Loop {
    Key key;
    RepeatedOperations operations;
  };
  std::size_t most_ = default_most;
  /// The last used first.
  std::vector<Loop> loops_;
};

/// An address as part of a key.
inline std::uintptr_t key_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace orthornn
