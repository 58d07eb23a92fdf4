#pragma once

#include <cstddef>
#include <cstdint>

#include "orthornn/core/device.hpp"

namespace orthornn {

/// Memory of a caller, of which the tensors are made that the calling thread makes on a device while the
/// object lives. So an operation takes no memory, though it is written with Tensors that own theirs. The
/// tensors must end before it does. Memory of a tensor that has ended is not used again. Objects may nest;
/// the innermost one is used. Threads that the operation starts are not concerned.
class LentMemory {
 public:
  /// Every tensor begins at a multiple of this many bytes: cudaMalloc's alignment, which is a multiple of
  /// every vector and cache line.
  static constexpr std::size_t alignment = 256;
  /// Size of a tensor with the gap behind it.
  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  /// Lends `bytes` bytes from `memory` on, which has any alignment.
  LentMemory(Device device, void* memory, std::size_t bytes);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  /// Bytes that a lender must have for all tensors that were made so far: with the gap before the first one.
  std::size_t needed() const;

  /// While a pause lives, the calling thread takes memory as it would without LentMemory: for what outlives
  /// the operation.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    LentMemory* before_;
  };

  // For core/device.cpp.

  /// The innermost object of this thread if it lends memory of the device, else nullptr.
  static LentMemory* of(Device device);
  /// Throws std::logic_error where the memory has come to its end: its size was computed wrongly.
  void* take(std::size_t bytes);
  /// Whether this address is in the memory of an object of this thread.
  static bool lends(const void* address);
  /// Whether there is no memory behind the addresses, so that none may be touched.
  bool is_planned() const { return planned_; }

 protected:
  struct Planned {};
  /// Lends addresses without memory.
  LentMemory(Device device, Planned);

 private:
  Device device_;
  bool planned_;
  std::uintptr_t begin_, next_, end_;
  LentMemory* before_;
};

/// Counts the bytes of the tensors that the calling thread makes on a device while it lives. The tensors have
/// addresses and no memory: their shapes may be asked for, and zeros may be written by Tensor::resize, but no
/// number may be read or written.
class PlannedMemory : public LentMemory {
 public:
  explicit PlannedMemory(Device device) : LentMemory(device, Planned{}) {}
};

}  // namespace orthornn
