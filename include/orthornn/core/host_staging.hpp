#pragma once

#include <memory>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

namespace cuda {
class PinnedSlots;
}

/// Memory of the host that a GPU reads while the host goes on: page-locked, some slots in turn. The host
/// waits where a slot that it comes to again has not been read yet. No call allocates once the slots are
/// large enough. A tensor of the host is written in place.
class HostStaging {
 public:
  HostStaging();
  HostStaging(HostStaging&&) noexcept;
  HostStaging& operator=(HostStaging&&) noexcept;
  ~HostStaging();

  /// to <- what `write` writes to a tensor of its shape in memory of the host. Only starts the work.
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
