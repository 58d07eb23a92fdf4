#pragma once

#include <memory>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

namespace cuda {
class PinnedSlots;
}

/// Page-locked memory of the host that a GPU reads while the host goes on. It has a few slots that are used
/// in turn; the host waits where the GPU has not yet read the slot whose turn it is. No call allocates once
/// the slots are large enough.
class HostStaging {
 public:
  /// Makes a staging without memory, which takes memory when it is first used for a GPU.
  HostStaging();
  /// Takes over the memory of another staging.
  HostStaging(HostStaging&&) noexcept;
  HostStaging& operator=(HostStaging&&) noexcept;
  ~HostStaging();

  /// Fills a tensor with what `write` writes. For a tensor of a GPU, `write` gets a tensor of that shape in
  /// memory of the host, and the copy to the GPU is only started. A tensor of the host is written in place.
  /// Throws DeviceError while operations are recorded, because a recording must not wait.
  template <class T, class Write>
  void fill(TensorView<T> to, const Write& write) {
    if (!to.device().is_cuda()) return write(to);
    if (to.empty()) return;
    const std::size_t bytes = static_cast<std::size_t>(to.size()) * sizeof(T);
    write(TensorView<T>(static_cast<T*>(next(to.device(), bytes)), to.shape()));
    send(to.data(), bytes);
  }

 private:
  /// Memory of the next slot, for operations on this device.
  void* next(Device device, std::size_t bytes);
  /// Enqueues a copy of what that slot holds.
  void send(void* to, std::size_t bytes);

  Device device_ = Device::cpu();
  /// Null before a GPU was met.
  std::unique_ptr<cuda::PinnedSlots> slots_;
};

}  // namespace orthornn
