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

DeviceProperties properties_of(Device device);

/// Throws DeviceError, with what is free, when there is not so much memory.
void* allocate(Device device, std::size_t bytes);
void release(Device device, void* memory) noexcept;
/// What cudaMalloc could still give, to whichever process.
std::size_t free_memory(Device device);
/// Counts allocations and releases: a recorded graph holds as long as the number stays the same.
std::uint64_t memory_changes(Device device);

void fill_zero(Device device, void* memory, std::size_t bytes);
/// Between two GPUs' memories, within one's, or to and from the host's, which waits, so that the host may go
/// on with its memory; to the host throws as `synchronize`.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);

/// As cuda/core/clusters.hpp says.
bool has_clusters(Device device);

void synchronize(Device device);

// As those of Context, for owners of faults in src.
int take_fault_word(Device device);
void give_back_fault_word(Device device, int number) noexcept;
int use_fault_word(Device device, int number) noexcept;

void* stream_of(Device device);

}  // namespace orthornn::cuda
