#pragma once
// What core/device.cpp needs of a GPU. Like every .hpp here but context.hpp and check.hpp, it includes no
// CUDA header.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// Why GPU `index` cannot be used, as a sentence; nullopt when it can.
std::optional<std::string> unusable(int index);

/// Throws DeviceError, with what is free, when there is not so much memory.
void* allocate(Device device, std::size_t bytes);
void release(Device device, void* memory) noexcept;
/// Counts allocations and releases: a recorded graph holds as long as the number stays the same.
std::uint64_t memory_changes(Device device);

void fill_zero(Device device, void* memory, std::size_t bytes);
/// Between two GPUs' memories, or one and the host's. From the device to the host: waits, and throws as
/// `synchronize`.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);

void synchronize(Device device);
void* stream_of(Device device);

}  // namespace orthornn::cuda
