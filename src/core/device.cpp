#include "orthornn/core/device.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <new>

#include "core/back_end.hpp"
#include "core/lent_memory.hpp"
#include "core/parsed_number.hpp"
#include "cuda/core/device.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// A cache line, and the widest vector register there is.
constexpr std::align_val_t host_alignment{64};

std::atomic<int> chosen_threads{0};

std::string processor_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

Device Device::cuda(int index) {
  const std::string name = index == 0 ? "cuda" : fmt::format("cuda:{}", index);
  if constexpr (has_cuda_bodies) {
    if (const auto reason = cuda::unusable(index)) {
      throw DeviceError(
          fmt::format("device {} was asked for, but {}; --device cpu works everywhere", name, *reason));
    }
    return Device(Kind::cuda, index);
  } else {
    throw DeviceError(
        fmt::format("device {} was asked for, but this build of orthornn is CPU-only; use --device cpu, or a "
                    "build with the CUDA back end",
                    name));
  }
}

Device Device::best() {
  if constexpr (has_cuda_bodies) {
    if (!cuda::unusable(0)) return cuda();
  }
  return cpu();
}

Device Device::parse(std::string_view name) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda();
  if (name == "auto") return best();
  if (name.starts_with("cuda:")) {
    const std::optional<int> index = parsed_number<int>(name.substr(5));
    if (index && *index >= 0) return cuda(*index);
  }
  throw ValueError(fmt::format("unknown device '{}'; expected cpu, cuda, cuda:INDEX or auto", name));
}

std::string to_string(Device device) {
  return device.kind() == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", device.index());
}

bool built_with_cuda() { return has_cuda_bodies; }

DeviceProperties properties_of(Device device) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::properties_of(device);
  }
  DeviceProperties properties;
  properties.name = processor_name();
  return properties;
}

std::string description(Device device) {
  const DeviceProperties properties = properties_of(device);
  if (!device.is_cuda()) return properties.name;
  return fmt::format("{}, compute capability {}, {:.2f} GB", properties.name, properties.compute_capability,
                     static_cast<double>(properties.memory_bytes) * 1e-9);
}

void synchronize(Device device) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) cuda::synchronize(device);
  }
}

void* stream_of(Device device) {
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::stream_of(device);
  }
  return nullptr;
}

int thread_count() {
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  return chosen > 0 ? chosen : omp_get_max_threads();
}

void set_thread_count(int count) {
  if (count < 1) throw ValueError(fmt::format("{} threads were asked for; at least one is needed", count));
  chosen_threads.store(count, std::memory_order_relaxed);
}

namespace detail {

void* allocate(Device device, std::size_t bytes) {
  if (LentMemory* lent = LentMemory::of(device)) return lent->take(bytes);
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::allocate(device, bytes);
  }
  return bytes == 0 ? nullptr : ::operator new(bytes, host_alignment);
}

void release(Device device, void* memory) noexcept {
  if (LentMemory::lends(memory)) return;
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::release(device, memory);
  }
  ::operator delete(memory, host_alignment);
}

void fill_zero(Device device, void* memory, std::size_t bytes) {
  if (const LentMemory* lent = LentMemory::of(device); lent != nullptr && lent->is_planned()) return;
  if constexpr (has_cuda_bodies) {
    if (device.is_cuda()) return cuda::fill_zero(device, memory, bytes);
  }
  if (bytes > 0) std::memset(memory, 0, bytes);
}

void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes) {
  if constexpr (has_cuda_bodies) {
    if (to_device.is_cuda() || from_device.is_cuda()) {
      return cuda::copy_bytes(to_device, to, from_device, from, bytes);
    }
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace detail
}  // namespace orthornn
