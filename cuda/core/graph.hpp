#pragma once

#include <cstdint>
#include <functional>

#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// A CUDA graph: operations on a device's stream, captured once and then launched together. They use the
/// memory of the capture. So the owner of a graph must compare `memory_changes` (cuda/core/device.hpp) before
/// a launch.
class Graph {
 public:
  Graph() = default;
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /// Captures the operations that `operations` enqueues, without running them. If it throws, the exception is
  /// passed on and the graph is empty.
  void record(Device device, const std::function<void()>& operations);
  bool empty() const { return executable_ == nullptr; }
  /// Enqueues all of it.
  void launch() const;

 private:
  Device device_ = Device::cpu();
  void* executable_ = nullptr;
};

/// The number of graph launches so far, on all devices. Tests use it to prove that a graph was launched.
std::uint64_t graph_launches();

/// True during a capture, when synchronizing is forbidden.
bool is_recording(Device device);

}  // namespace orthornn::cuda
