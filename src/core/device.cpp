#include "orthornn/core/device.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <atomic>
#include <cstring>
#include <new>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// A cache line, and the widest vector register there is.
constexpr std::align_val_t alignment{64};

std::atomic<int> chosen_threads{0};

}  // namespace

Device Device::cuda(int) {
  throw DeviceError(
      "device cuda was asked for, but this build of orthornn is CPU-only; use --device cpu, or a build with "
      "the CUDA back end");
}

Device Device::best() { return cpu(); }

Device Device::parse(std::string_view name) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda();
  if (name == "auto") return best();
  throw ValueError(fmt::format("unknown device '{}'; expected cpu, cuda or auto", name));
}

std::string to_string(Device device) {
  return device.kind() == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", device.index());
}

bool built_with_cuda() { return false; }

int thread_count() {
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  return chosen > 0 ? chosen : omp_get_max_threads();
}

void set_thread_count(int count) {
  if (count < 1) throw ValueError(fmt::format("{} threads were asked for; at least one is needed", count));
  chosen_threads.store(count, std::memory_order_relaxed);
}

namespace detail {

void* allocate(Device, std::size_t bytes) { return bytes == 0 ? nullptr : ::operator new(bytes, alignment); }

void release(Device, void* memory) noexcept { ::operator delete(memory, alignment); }

void fill_zero(Device, void* memory, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, 0, bytes);
}

void copy_bytes(Device, void* to, Device, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace detail
}  // namespace orthornn
