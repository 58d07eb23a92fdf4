#include <cstdlib>
#include <cstring>

#include "runtime.hpp"

using orthornn::emulator::device_exists;
using orthornn::emulator::environment_number;
using orthornn::emulator::remember;

namespace orthornn::emulator {

std::uint64_t environment_number(const char* name, std::uint64_t default_value) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? default_value : std::strtoull(value, nullptr, 10);
}

bool device_exists() { return environment_number("ORTHORNN_EMULATED_DEVICES", 1) != 0; }

namespace {

/// What an H200 says of itself, but for its name.
cudaDeviceProp properties() {
  cudaDeviceProp p = {};
  std::strcpy(p.name, "emulated GPU");
  std::size_t free = 0;
  cudaMemGetInfo(&free, &p.totalGlobalMem);
  p.sharedMemPerBlock = 48 << 10;
  p.regsPerBlock = 65536;
  p.warpSize = 32;
  p.memPitch = 0x7FFFFFFF;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7FFFFFFF;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 64 << 10;
  p.major = 9;
  p.minor = 0;
  p.multiProcessorCount = static_cast<int>(environment_number("ORTHORNN_EMULATED_SMS", 22));
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 6144;
  p.l2CacheSize = 60 << 20;
  p.persistingL2CacheMaxSize = 37 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.regsPerMultiprocessor = 65536;
  p.managedMemory = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = 227 << 10;
  p.maxBlocksPerMultiProcessor = 32;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.clusterLaunch = 1;
  return p;
}

/// What a call for that device answers before anything else.
cudaError_t check_device(int device) {
  if (!device_exists()) return cudaErrorNoDevice;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace
}  // namespace orthornn::emulator

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_exists() ? 1 : 0;
  return remember(device_exists() ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) { return remember(orthornn::emulator::check_device(device)); }

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return remember(orthornn::emulator::check_device(0));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const cudaError_t error = orthornn::emulator::check_device(device);
  if (error == cudaSuccess) *properties = orthornn::emulator::properties();
  return remember(error);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  const auto answer = [value](auto number) {
    *value = static_cast<int>(number);
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return answer(p.maxThreadsPerBlock);
    case cudaDevAttrMaxBlockDimX:
      return answer(p.maxThreadsDim[0]);
    case cudaDevAttrMaxBlockDimY:
      return answer(p.maxThreadsDim[1]);
    case cudaDevAttrMaxBlockDimZ:
      return answer(p.maxThreadsDim[2]);
    case cudaDevAttrMaxGridDimX:
      return answer(p.maxGridSize[0]);
    case cudaDevAttrMaxGridDimY:
      return answer(p.maxGridSize[1]);
    case cudaDevAttrMaxGridDimZ:
      return answer(p.maxGridSize[2]);
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return answer(p.sharedMemPerBlock);
    case cudaDevAttrWarpSize:
      return answer(p.warpSize);
    case cudaDevAttrMaxRegistersPerBlock:
      return answer(p.regsPerBlock);
    case cudaDevAttrClockRate:
      return answer(1980000);
    case cudaDevAttrMultiProcessorCount:
      return answer(p.multiProcessorCount);
    case cudaDevAttrMemoryClockRate:
      return answer(3201000);
    case cudaDevAttrGlobalMemoryBusWidth:
      return answer(p.memoryBusWidth);
    case cudaDevAttrL2CacheSize:
      return answer(p.l2CacheSize);
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return answer(p.maxThreadsPerMultiProcessor);
    case cudaDevAttrComputeCapabilityMajor:
      return answer(p.major);
    case cudaDevAttrComputeCapabilityMinor:
      return answer(p.minor);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return answer(p.sharedMemPerMultiprocessor);
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return answer(p.regsPerMultiprocessor);
    case cudaDevAttrCooperativeLaunch:
      return answer(p.cooperativeLaunch);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return answer(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return answer(p.maxBlocksPerMultiProcessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return answer(p.reservedSharedMemPerBlock);
    case cudaDevAttrClusterLaunch:
      return answer(p.clusterLaunch);
  }
  return remember(cudaErrorInvalidValue);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = device_exists() ? CUDART_VERSION : 0;  // zero: no driver
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
