#pragma once

/// Errors of the runtime that can occur here or that programs ask for: X(name, code, description).
#define ORTHORNN_EMULATED_ERRORS(X)                                                                         \
  X(cudaSuccess, 0, "no error")                                                                             \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                                           \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                                          \
  X(cudaErrorInitializationError, 3, "initialization error")                                                \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                     \
  X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                    \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                               \
  X(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")        \
  X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                          \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                           \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                  \
  X(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")       \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                         \
  X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")                   \
  X(cudaErrorNotReady, 600, "device not ready")                                                             \
  X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                               \
  X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                          \
  X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                                 \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                              \
  X(cudaErrorNotPermitted, 800, "operation not permitted")                                                  \
  X(cudaErrorNotSupported, 801, "operation not supported")                                                  \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")             \
  X(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")      \
  X(cudaErrorStreamCaptureMerge, 902, "operation would result in a merge of separate capture sequences")    \
  X(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")           \
  X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                              \
  X(cudaErrorStreamCaptureIsolation, 905, "dependency created on uncaptured work in another stream")        \
  X(cudaErrorStreamCaptureImplicit, 906,                                                                    \
    "operation would make the legacy stream depend on a capturing blocking stream")                         \
  X(cudaErrorCapturedEvent, 907, "operation not permitted on an event last recorded in a capturing stream") \
  X(cudaErrorStreamCaptureWrongThread, 908,                                                                 \
    "attempt to terminate a thread-local capture sequence from another thread")                             \
  X(cudaErrorInvalidClusterSize, 912, "invalid cluster size")                                               \
  X(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define ORTHORNN_EMULATED_ERROR(name, code, description) name = code,
  ORTHORNN_EMULATED_ERRORS(ORTHORNN_EMULATED_ERROR)
#undef ORTHORNN_EMULATED_ERROR
};
using cudaError_t = cudaError;
