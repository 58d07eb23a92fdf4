#pragma once

#include <cstdint>
#include <functional>

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

/// Graphs that were launched so far, on all devices: those who compare recorded operations with direct ones
/// make sure of them.
std::uint64_t graph_launches();

/// True while operations are recorded, so that nothing may wait.
bool is_recording(Device device);

}  // namespace orthornn::cuda
