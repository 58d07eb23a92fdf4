#pragma once
// The functions of a GPU that core/device.cpp needs. Like every .hpp here but context.hpp and check.hpp, it
// includes no CUDA header.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "orthornn/core/device.hpp"

namespace orthornn::cuda {

/// Why GPU `index` cannot be used, as a sentence; nullopt when it can.
std::optional<std::string> unusable(int index);

DeviceProperties properties_of(Device device);

/// Throws DeviceError, which names the free memory, if memory is short.
void* allocate(Device device, std::size_t bytes);
void release(Device device, void* memory) noexcept;
/// The free memory for cudaMalloc, shared by all processes.
std::size_t free_memory(Device device);
/// Counts allocations and releases: a graph is valid while this number stays the same.
std::uint64_t memory_changes(Device device);

void fill_zero(Device device, void* memory, std::size_t bytes);
/// Copies between two GPUs, within one, or to and from the host. Copies to and from the host synchronize, so
/// that the host may use its memory at once. A copy to the host throws as `synchronize`.
void copy_bytes(Device to_device, void* to, Device from_device, const void* from, std::size_t bytes);

/// See cuda/core/clusters.hpp.
bool has_clusters(Device device);

void synchronize(Device device);

// The functions of Context, for owners of fault words in src.
int take_fault_word(Device device);
void give_back_fault_word(Device device, int number) noexcept;
int use_fault_word(Device device, int number) noexcept;

void* stream_of(Device device);
/// Makes operations go to `stream`; returns the stream before. Throws as Context::use_stream.
void* use_stream(Device device, void* stream);
/// The same at the end of a scope. An error of CUDA is left for the next call that checks.
void return_to_stream(Device device, void* stream) noexcept;
/// Throws DeviceError where nothing has been done on the GPU yet and `stream` is captured: what an operation
/// needs there would be made in the capture.
void refuse_first_use_in_capture(Device device, void* stream);

}  // namespace orthornn::cuda
