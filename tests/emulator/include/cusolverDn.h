#pragma once

#include "cublas_v2.h"

/// The part of cuSOLVER that the kernels' launchers use. Matrices are stored by columns.

using cusolverDnHandle_t = struct cusolverDnContext*;
using cusolverDnParams_t = struct cusolverDnParams*;

enum cusolverStatus_t {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
  CUSOLVER_STATUS_NOT_SUPPORTED = 9
};

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params);
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params);

/// P A = L U, with the pivots from one on; none are looked for if `pivots` is null.
cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                             std::int64_t m, std::int64_t n, cudaDataType a_type,
                                             const void* a, std::int64_t lda, cudaDataType compute_type,
                                             std::size_t* device_bytes, std::size_t* host_bytes);
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t params, std::int64_t m,
                                  std::int64_t n, cudaDataType a_type, void* a, std::int64_t lda,
                                  std::int64_t* pivots, cudaDataType compute_type, void* device_buffer,
                                  std::size_t device_bytes, void* host_buffer, std::size_t host_bytes,
                                  int* info);
cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  cublasOperation_t trans, std::int64_t n, std::int64_t nrhs,
                                  cudaDataType a_type, const void* a, std::int64_t lda,
                                  const std::int64_t* pivots, cudaDataType b_type, void* b, std::int64_t ldb,
                                  int* info);
