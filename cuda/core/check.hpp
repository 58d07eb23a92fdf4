#pragma once
// The status of every call of CUDA, cuBLAS and cuSOLVER goes through one of these.

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <source_location>

namespace orthornn::cuda {

/// Throw DeviceError with the library's own words and the place, unless all went well.
void check(cudaError_t status, std::source_location place = std::source_location::current());
void check(cublasStatus_t status, std::source_location place = std::source_location::current());
void check(cusolverStatus_t status, std::source_location place = std::source_location::current());

}  // namespace orthornn::cuda
