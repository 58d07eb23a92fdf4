#include "cuda/core/recorded_operations.hpp"

#include <cstdint>
#include <optional>

#include "cuda/core/device.hpp"
#include "cuda/core/graph.hpp"

namespace orthornn::cuda {
namespace {

class OperationsInGraph final : public RecordedOperations {
 public:
  explicit OperationsInGraph(Device device) : device_(device) {}

  void run(const std::function<void()>& operations) override {
    if (is_recording(device_)) return operations();
    if (memory_changes(device_) != seen_changes_) forget();
    if (!seen_changes_) {
      operations();
      seen_changes_ = memory_changes(device_);
      return;
    }
    if (graph_.empty()) graph_.record(device_, operations);
    graph_.launch();
  }

  void forget() override {
    graph_ = Graph();
    seen_changes_.reset();
  }

 private:
  Device device_;
  Graph graph_;
  /// The device's `memory_changes` after the operations were called.
  std::optional<std::uint64_t> seen_changes_;
};

}  // namespace

std::unique_ptr<RecordedOperations> make_recorded_operations(Device device) {
  return std::make_unique<OperationsInGraph>(device);
}

}  // namespace orthornn::cuda
