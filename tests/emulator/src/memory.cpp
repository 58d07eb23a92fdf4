#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "emulator/fail.hpp"
#include "runtime.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace orthornn::emulator {
namespace {

constexpr std::size_t zone = 256;  // the guard on either side, and CUDA's alignment
constexpr unsigned char nan_byte = 0xFF, mark = 0xA5;

std::size_t padded(std::size_t bytes) { return (bytes + zone - 1) / zone * zone + 2 * zone; }

/// All allocations of one kind of memory. Each lies between two guard zones.
class Allocations {
 public:
  /// Null if there is no memory.
  void* allocate(std::size_t bytes) {
    auto* whole = static_cast<unsigned char*>(std::aligned_alloc(zone, padded(bytes)));
    if (whole == nullptr) return nullptr;
    std::memset(whole, mark, zone);
    std::memset(whole + zone, nan_byte, bytes);
    std::memset(whole + zone + bytes, mark, padded(bytes) - zone - bytes);
    ASAN_POISON_MEMORY_REGION(whole, zone);
    ASAN_POISON_MEMORY_REGION(whole + zone + bytes, padded(bytes) - zone - bytes);
    sizes_.emplace(whole + zone, bytes);
    total_ += bytes;
    return whole + zone;
  }

  bool release(void* address) {
    const auto found = sizes_.find(static_cast<unsigned char*>(address));
    if (found == sizes_.end()) return false;
    check(found->first, found->second);
    std::memset(address, nan_byte, found->second);  // whoever reads on, shall notice
    total_ -= found->second;
    std::free(found->first - zone);
    sizes_.erase(found);
    return true;
  }

  bool holds(const void* address, std::size_t bytes) const {
    const auto* begin = static_cast<const unsigned char*>(address);
    auto after = sizes_.upper_bound(const_cast<unsigned char*>(begin));
    if (after == sizes_.begin()) return false;
    --after;
    return begin + bytes <= after->first + after->second;
  }

  void check_all() const {
    for (const auto& [address, bytes] : sizes_) check(address, bytes);
  }

  std::size_t total() const { return total_; }

 private:
  static void check(unsigned char* address, std::size_t bytes) {
    unsigned char* whole = address - zone;
    ASAN_UNPOISON_MEMORY_REGION(whole, padded(bytes));
    for (std::size_t i = 0; i < padded(bytes); ++i) {
      if (i == zone) i += bytes;
      if (whole[i] == mark) continue;
      const std::size_t distance = i < zone ? zone - i : i - zone - bytes;
      fail("somebody wrote " + std::to_string(distance) + " bytes " +
           (i < zone ? "before" : "after the end of") + " an allocation of " + std::to_string(bytes) +
           " bytes");
    }
  }

  std::map<unsigned char*, std::size_t> sizes_;
  std::size_t total_ = 0;
};

struct Memory {
  Allocations device, pinned;
};

/// Never destroyed: others may free their memory as late as they like.
Memory& memory() {
  static Memory* instance = [] {
    std::atexit([] {
      memory().device.check_all();
      memory().pinned.check_all();
    });
    return new Memory;
  }();
  return *instance;
}

std::size_t device_bytes() { return environment_number("ORTHORNN_EMULATED_MEMORY", std::uint64_t{80} << 30); }

cudaError_t allocate(void** address, std::size_t bytes, Allocations& allocations, std::size_t limit) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (!device_exists()) return cudaErrorNoDevice;
  if (const cudaError_t error = refuse_during_capture(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (bytes > limit || allocations.total() > limit - bytes) return cudaErrorMemoryAllocation;
  *address = allocations.allocate(bytes);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t release(void* address, Allocations& allocations) {
  if (!device_exists()) return cudaErrorNoDevice;
  if (address == nullptr) return cudaSuccess;
  if (const cudaError_t error = refuse_during_capture(); error != cudaSuccess) return error;
  return allocations.release(address) ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

bool is_device_memory(const void* address, std::size_t bytes) {
  return memory().device.holds(address, bytes);
}
bool begins_in_device_memory(const void* address) { return memory().device.holds(address, 1); }
bool is_pinned_memory(const void* address, std::size_t bytes) {
  return memory().pinned.holds(address, bytes);
}

void require_device_memory(const void* address, std::size_t bytes, const char* what) {
  if (bytes == 0 || is_device_memory(address, bytes)) return;
  fail(std::string(what) +
       (begins_in_device_memory(address) ? " reaches beyond the end of" : " does not lie in") +
       " device memory");
}

}  // namespace orthornn::emulator

using orthornn::emulator::memory;
using orthornn::emulator::remember;
using orthornn::emulator::runtime_mutex;

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  return remember(
      orthornn::emulator::allocate(address, bytes, memory().device, orthornn::emulator::device_bytes()));
}

cudaError_t cudaFree(void* address) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::release(address, memory().device));
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::allocate(address, bytes, memory().pinned, SIZE_MAX));
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return cudaMallocHost(address, bytes);
}

cudaError_t cudaFreeHost(void* address) {
  const std::lock_guard lock(runtime_mutex());
  return remember(orthornn::emulator::release(address, memory().pinned));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(runtime_mutex());
  if (!orthornn::emulator::device_exists()) return remember(cudaErrorNoDevice);
  *total = orthornn::emulator::device_bytes();
  *free = *total - std::min(*total, memory().device.total());
  return cudaSuccess;
}
