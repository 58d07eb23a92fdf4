#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "orthornn/core/repeated_operations.hpp"

namespace orthornn {

/// Loops of thousands of launches, and steps of a training. Such launches take the host longer than the GPU.
/// So what comes again with the same key becomes one launch. The CPU just runs it.
class RecordedLoops {
 public:
  /// Addresses and sizes that decide what a loop does. What moves by allocations alone need not be among them
  /// (RepeatedOperations notices that).
  using Key = std::vector<std::uintptr_t>;

  /// A loop of more launches than this takes a graph too long to make, and too much memory.
  static constexpr std::int64_t most_launches = 100'000;
  /// Enough for forward and backward, of training and of evaluation, and of a layer that runs several times
  /// in a step.
  static constexpr std::size_t default_most = 16;

  RecordedLoops() = default;
  /// Keeps so many recordings at most, those that were used last.
  explicit RecordedLoops(std::size_t most) : most_(most) {}

  /// Runs `steps`, as RepeatedOperations::run does. Within another recording they become part of that.
  void run(Device device, Key key, const std::function<void()>& steps);
  /// What has this key begins anew.
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
