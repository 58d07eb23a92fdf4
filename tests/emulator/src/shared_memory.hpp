#pragma once

#include <cstddef>

namespace orthornn::emulator {

/// The dynamic shared memory of the blocks of a cluster. Each block's ends (up to its alignment of 128 bytes)
/// where a page begins that nothing may touch; what lies between is checked when the block exits.
/// AddressSanitizer sees every access outside of it, and to blocks that do not run.
class SharedMemory {
 public:
  static constexpr std::size_t max_bytes = 227 << 10;  // that a block can have
  static constexpr unsigned max_blocks = 16;

  SharedMemory();

  void resize(std::size_t bytes) { bytes_ = bytes; }
  std::size_t size() const { return bytes_; }
  unsigned char* of_rank(unsigned rank) const;

  /// Fills all of it with what is not a number, and marks its surroundings.
  void prepare(unsigned rank) const;
  /// Whether they are still as prepared.
  bool surroundings_untouched(unsigned rank) const;

  void allow_access(unsigned rank) const;
  void forbid_access(unsigned rank) const;

  /// Of the block in whose guard page `address` lies, or -1.
  int guarded_rank(const void* address) const;

 private:
  unsigned char* slot(unsigned rank) const { return memory_ + rank * slot_size; }

  static constexpr std::size_t page = 4096;
  static constexpr std::size_t guard = 1 << 16;  // a wild index does not leap over it that easily
  static constexpr std::size_t space = 228 << 10;
  static constexpr std::size_t slot_size = space + guard;
  static constexpr std::size_t alignment = 128;

  unsigned char* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace orthornn::emulator
