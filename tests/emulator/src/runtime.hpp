#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "cuda_runtime_api.h"

namespace orthornn::emulator {

/// Held by whatever touches the runtime's state, so that several OS threads can use it. Work that is enqueued
/// runs while it is held.
std::recursive_mutex& runtime_mutex();

/// Makes it what cudaGetLastError tells, if it is an error.
cudaError_t remember(cudaError_t error);

/// The number that the environment variable holds, or the default.
std::uint64_t environment_number(const char* name, std::uint64_t default_value);
bool device_exists();

/// Does the work now, or records it if the stream captures.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
/// An error, and the end of the capture, while a stream captures in a mode that forbids this thread to do
/// what would not be recorded.
cudaError_t refuse_during_capture();
bool is_capturing(cudaStream_t stream);

/// Whether all of it lies in one allocation of device memory.
bool is_device_memory(const void* address, std::size_t bytes);
/// Whether it begins in device memory.
bool begins_in_device_memory(const void* address);
bool is_pinned_memory(const void* address, std::size_t bytes);
/// Fails unless is_device_memory; for libraries' arguments, which CUDA does not check.
void require_device_memory(const void* address, std::size_t bytes, const char* what);

/// Makes a fault in a guard page, which would end the process without a word, say what it was.
void explain_faults();

}  // namespace orthornn::emulator
