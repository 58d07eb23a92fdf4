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
///
/// Copies of 64 KiB and more are made while the GPU is still at operations before them, into four tensors on
/// the GPU, each as large as the largest one copied. Operations after them wait for a copy within the GPU.
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
    send_slot(to.data(), bytes);
  }

  /// A tensor of the host with unspecified elements, in page-locked memory where `reader` is a GPU: `send`
  /// reads that without a copy in between. Throws as Tensor::resize, and DeviceError.
  template <class T>
  static Tensor<T> page_locked(const Shape& shape, Device reader) {
    if (!reader.is_cuda()) return Tensor<T>(shape);
    T* const memory = static_cast<T*>(lock(reader, shape.bytes(sizeof(T))));
    return Tensor<T>::adopt(memory, shape, Device::cpu(), [reader](T* locked) { unlock(reader, locked); });
  }
  /// Copies a tensor of the host. For a tensor of a GPU the copy is only started: `from` must stay as it is
  /// until `wait_until_sent` returns. Throws as `fill`, and ShapeError where the shapes differ.
  template <class T>
  void send(ConstTensorView<T> from, TensorView<T> to) {
    if (!to.device().is_cuda()) return copy<T>(from, to);
    check_shape("sent tensor", from.shape(), to.shape());
    if (!from.empty())
      send(to.device(), from.data(), to.data(), static_cast<std::size_t>(from.size()) * sizeof(T));
  }
  /// Waits until all tensors that were sent have been read.
  void wait_until_sent();

 private:
  static void* lock(Device reader, std::size_t bytes);
  static void unlock(Device reader, void* memory) noexcept;
  /// Takes slots of that device, unless those of the last call are.
  void use(Device device);
  /// Memory of the next slot, for operations on this device.
  void* next(Device device, std::size_t bytes);
  /// Enqueues a copy of what that slot holds.
  void send_slot(void* to, std::size_t bytes);
  void send(Device device, const void* from, void* to, std::size_t bytes);

  Device device_ = Device::cpu();
  /// Null before a GPU was met.
  std::unique_ptr<cuda::PinnedSlots> slots_;
};

}  // namespace orthornn
