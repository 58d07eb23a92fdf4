#pragma once
// One of these functions checks the status of every call of CUDA, cuBLAS and cuSOLVER.

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <source_location>

namespace orthornn::cuda {

/// Throw DeviceError with the library's message and the source location, unless the status is success.
void check(cudaError_t status, std::source_location place = std::source_location::current());
void check(cublasStatus_t status, std::source_location place = std::source_location::current());
void check(cusolverStatus_t status, std::source_location place = std::source_location::current());

}  // namespace orthornn::cuda
