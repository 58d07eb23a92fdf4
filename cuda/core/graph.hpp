#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// Operations on a device's stream, recorded once and then started together. They refer to the memory they
/// were recorded with: whoever keeps one compares `memory_changes` (cuda/core/device.hpp).
class Graph {
 public:
  Graph() = default;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /// Records what `operations` enqueues, without running it. What it throws goes on, and the graph is empty
  /// then.
  void record(Device device, const std::function<void()>& operations);
  bool empty() const { return executable_ == nullptr; }
  /// Enqueues all of it.
  void launch() const;

 private:
  Device device_ = Device::cpu();
  void* executable_ = nullptr;
};

/// True while operations are recorded, so that nothing may wait.
bool is_recording(Device device);

/// Operations that are run again and again: directly at first, and as a graph once they come a second time
/// with the same key. Within another recording they become part of that.
class RepeatedOperations {
 public:
  /// Everything that the operations depend on beside the contents of memory: addresses, sizes, choices.
  using Key = std::vector<std::uintptr_t>;

  void run(Device device, Key key, const std::function<void()>& operations);

 private:
  Graph graph_;
  Key key_;
  std::uint64_t memory_changes_ = 0;
};

}  // namespace orthornn::cuda
