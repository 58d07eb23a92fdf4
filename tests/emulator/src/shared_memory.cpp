#include "shared_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "emulator/fail.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace orthornn::emulator {
namespace {

constexpr unsigned char nan_byte = 0xFF, mark = 0xA5;

bool all_equal(const unsigned char* begin, const unsigned char* end, unsigned char value) {
  return begin == end || (*begin == value && std::memcmp(begin, begin + 1, end - begin - 1) == 0);
}

}  // namespace

SharedMemory::SharedMemory() {
  void* memory = mmap(nullptr, max_blocks * slot_size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for the blocks' shared memory");
  memory_ = static_cast<unsigned char*>(memory);
  for (unsigned rank = 0; rank < max_blocks; ++rank) {
    if (mprotect(slot(rank) + space, guard, PROT_NONE) != 0) fail("cannot guard the shared memory");
    ASAN_POISON_MEMORY_REGION(slot(rank) + space, guard);
  }
}

unsigned char* SharedMemory::of_rank(unsigned rank) const {
  return slot(rank) + space - (bytes_ + alignment - 1) / alignment * alignment;
}

void SharedMemory::prepare(unsigned rank) const {
  unsigned char* begin = of_rank(rank);
  ASAN_UNPOISON_MEMORY_REGION(slot(rank), space);
  std::memset(begin - alignment, mark, alignment);
  std::memset(begin, nan_byte, bytes_);
  std::memset(begin + bytes_, mark, slot(rank) + space - (begin + bytes_));
  forbid_access(rank);
}

bool SharedMemory::surroundings_untouched(unsigned rank) const {
  ASAN_UNPOISON_MEMORY_REGION(slot(rank), space);
  const unsigned char* begin = of_rank(rank);
  const bool answer =
      all_equal(begin - alignment, begin, mark) && all_equal(begin + bytes_, slot(rank) + space, mark);
  forbid_access(rank);
  return answer;
}

void SharedMemory::allow_access(unsigned rank) const { ASAN_UNPOISON_MEMORY_REGION(of_rank(rank), bytes_); }

void SharedMemory::forbid_access(unsigned rank) const { ASAN_POISON_MEMORY_REGION(slot(rank), space); }

int SharedMemory::guarded_rank(const void* address) const {
  for (unsigned rank = 0; rank < max_blocks; ++rank) {
    const unsigned char* begin = slot(rank) + space;
    if (address >= begin && address < begin + guard) return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace orthornn::emulator
