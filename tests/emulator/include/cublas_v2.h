#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime_api.h"
#include "library_types.h"

/// The part of cuBLAS that we use. Matrices are those of BLAS, stored by columns.

#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VERSION 130000

using cublasHandle_t = struct cublasContext*;

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 };
enum cublasDiagType_t { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum cublasSideMode_t { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99
};

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                               const void* a, cudaDataType a_type, std::int64_t lda, const void* b,
                               cudaDataType b_type, std::int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute_type,
                               cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, std::int64_t m, std::int64_t n,
    std::int64_t k, const void* alpha, const void* a, cudaDataType a_type, std::int64_t lda,
    long long a_stride, const void* b, cudaDataType b_type, std::int64_t ldb, long long b_stride,
    const void* beta, void* c, cudaDataType c_type, std::int64_t ldc, long long c_stride,
    std::int64_t batch_count, cublasComputeType_t compute_type, cublasGemmAlgo_t algorithm);

#define ORTHORNN_EMULATED_CUBLAS(letter, T)                                                                 \
  cublasStatus_t cublas##letter##gemmStridedBatched_64(                                                     \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, std::int64_t m,            \
      std::int64_t n, std::int64_t k, const T* alpha, const T* a, std::int64_t lda, long long a_stride,     \
      const T* b, std::int64_t ldb, long long b_stride, const T* beta, T* c, std::int64_t ldc,              \
      long long c_stride, std::int64_t batch_count);                                                        \
  cublasStatus_t cublas##letter##gemm_64(                                                                   \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, std::int64_t m,            \
      std::int64_t n, std::int64_t k, const T* alpha, const T* a, std::int64_t lda, const T* b,             \
      std::int64_t ldb, const T* beta, T* c, std::int64_t ldc);                                             \
  cublasStatus_t cublas##letter##geam_64(cublasHandle_t handle, cublasOperation_t transa,                   \
                                         cublasOperation_t transb, std::int64_t m, std::int64_t n,          \
                                         const T* alpha, const T* a, std::int64_t lda, const T* beta,       \
                                         const T* b, std::int64_t ldb, T* c, std::int64_t ldc);             \
  cublasStatus_t cublas##letter##trsm_64(                                                                   \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t trans,         \
      cublasDiagType_t diagonal, std::int64_t m, std::int64_t n, const T* alpha, const T* a,                \
      std::int64_t lda, T* b, std::int64_t ldb);                                                            \
  cublasStatus_t cublas##letter##gemv_64(                                                                   \
      cublasHandle_t handle, cublasOperation_t trans, std::int64_t m, std::int64_t n, const T* alpha,       \
      const T* a, std::int64_t lda, const T* x, std::int64_t incx, const T* beta, T* y, std::int64_t incy); \
  cublasStatus_t cublas##letter##dgmm_64(cublasHandle_t handle, cublasSideMode_t mode, std::int64_t m,      \
                                         std::int64_t n, const T* a, std::int64_t lda, const T* x,          \
                                         std::int64_t incx, T* c, std::int64_t ldc);

ORTHORNN_EMULATED_CUBLAS(S, float)
ORTHORNN_EMULATED_CUBLAS(D, double)
#undef ORTHORNN_EMULATED_CUBLAS
