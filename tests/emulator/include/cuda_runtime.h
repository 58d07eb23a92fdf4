#pragma once

/// An emulator of CUDA: with these headers in place of NVIDIA's, a host compiler compiles our .cu files as
/// C++
/// (-x c++), and src/ runs them on the processor. It exists so that the logic of kernels (indices, barriers,
/// exchanges between blocks, graphs) is tested where there is no GPU, as in continuous integration; and
/// because it is stricter than a GPU, which forgives mistakes until it does not. It says nothing about speed.
///
/// Every CUDA thread is a fiber with a stack of its own, all on one OS thread (fiber.hpp, processor.hpp). The
/// blocks of a cluster take turns; clusters run one after another. A thread runs until it waits for others.
/// What is enqueued on a stream runs at once, unless the stream captures: then it is recorded, for
/// cudaGraphLaunch to replay.
///
/// Emulated:
///  - launches by cudaLaunchKernelEx, with clusters of up to 16 blocks, and CUDA's limits;
///  - __syncthreads, warp collectives, atomics; our own PTX functions (emulated_ptx.hpp): the cluster's
///    barrier, bulk copies into other blocks' shared memory, mbarriers, cp.async and mma;
///  - memory, streams, events, capture and graphs; of cuBLAS and cuSOLVER what we call.
///
/// Found out, with a message that names the kernel and the thread, and an abort:
///  - deadlocks; threads that exit while others wait for them; barriers or collectives that differ between
///  threads;
///  - writes next to what was cudaMalloc'ed (at cudaFree and at exit) or to a block's shared memory, accesses
///    beyond its end, and bulk copies to blocks of a cluster that have not started or have exited;
///  - missing waits for asynchronous copies, as these are performed as late as possible;
///  - memory never written: fresh device and shared memory is not a number (all bytes 0xFF).
/// And returned as errors: launches that CUDA refuses, and calls that are illegal during a capture.
/// AddressSanitizer works, and sees more: every access outside of any of these memories.
///
/// Environment:
///  - ORTHORNN_EMULATED_SEED=n: the order in which threads run is random, and they yield at atomics and
///  fences, to
///    shake out races;
///  - ORTHORNN_EMULATED_DEVICES=0: no device; ORTHORNN_EMULATED_SMS: multiprocessors (22, so that
///    tests which fill a device are short);
///  - ORTHORNN_EMULATED_MEMORY: bytes of device memory, beyond which cudaMalloc fails.
///
/// Not emulated: what no kernel of ours uses, such as <<<>>>, cooperative launches, textures, dynamic
/// parallelism and named barriers. Not found: races that no order of whole stretches between waits shows;
/// host code that reads device memory, or that forgets to synchronise, as streams run at once; kernels whose
/// blocks wait for blocks of other clusters (they hang on a device that is too small, and here always).
/// __shared__ variables are static ones: for launches without clusters, and not refilled for every block.

#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "emulator/launch.hpp"
#include "emulator/math_functions.hpp"
#include "emulator/memory_functions.hpp"
#include "emulator/qualifiers.hpp"
#include "emulator/thread.hpp"
#include "emulator/warp_functions.hpp"

namespace orthornn::emulator {

/// Checks a launch as CUDA does, and enqueues it.
cudaError_t enqueue_launch(const cudaLaunchConfig_t* config, const void* kernel,
                           std::function<void()> thread);
cudaError_t copy_to_symbol(void* symbol, std::size_t symbol_bytes, const void* from, std::size_t bytes,
                           std::size_t offset, cudaStream_t stream);

template <class Function>
const void* address_of(Function* function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace orthornn::emulator

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "kernels have no default arguments here");
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "arguments are copied byte by byte");
  static_assert((!std::is_reference_v<Parameters> && ...), "a reference to the host's memory");
  static_assert((sizeof(Parameters) + ... + 0) <= 32764, "arguments that CUDA has no room for");
  const auto bind = [kernel](Parameters... parameters) {
    return [kernel, bound = std::tuple<Parameters...>(parameters...)] { std::apply(kernel, bound); };
  };
  return orthornn::emulator::enqueue_launch(config, orthornn::emulator::address_of(kernel),
                                            bind(std::forward<Arguments>(arguments)...));
}

template <class T>
cudaError_t cudaMalloc(T** address, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(address), bytes);
}

template <class T>
cudaError_t cudaMallocHost(T** address, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(address), bytes);
}

template <class T>
cudaError_t cudaHostAlloc(T** address, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(address), bytes, flags);
}

template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, std::size_t bytes, std::size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice) {
  return orthornn::emulator::copy_to_symbol(&symbol, sizeof(symbol), from, bytes, offset, nullptr);
}

template <class T>
cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, std::size_t bytes, std::size_t offset,
                                    cudaMemcpyKind, cudaStream_t stream = nullptr) {
  return orthornn::emulator::copy_to_symbol(&symbol, sizeof(symbol), from, bytes, offset, stream);
}

template <class Function>
requires std::is_function_v<Function> cudaError_t cudaFuncSetAttribute(Function* function,
                                                                       cudaFuncAttribute attribute,
                                                                       int value) {
  return cudaFuncSetAttribute(orthornn::emulator::address_of(function), attribute, value);
}

template <class Function>
requires std::is_function_v<Function> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                                        Function* function) {
  return cudaFuncGetAttributes(attributes, orthornn::emulator::address_of(function));
}

template <class Function>
requires std::is_function_v<Function> cudaError_t
cudaOccupancyMaxActiveClusters(int* count, Function* function, const cudaLaunchConfig_t* config) {
  return cudaOccupancyMaxActiveClusters(count, orthornn::emulator::address_of(function), config);
}

template <class Function>
requires std::is_function_v<Function> cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* count, Function* function, int block_size, std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, orthornn::emulator::address_of(function),
                                                       block_size, shared_bytes);
}
