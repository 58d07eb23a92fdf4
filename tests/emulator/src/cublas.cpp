#include <Eigen/Dense>
#include <bit>
#include <type_traits>

#include "cublas_v2.h"
#include "emulated_ptx.hpp"
#include "matrix.hpp"
#include "runtime.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace orthornn::emulator {
namespace {

using Index = std::int64_t;

bool at_least(Index leading, Index rows) { return leading >= std::max<Index>(1, rows); }
bool valid(cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T; }

struct Gemm {
  cublasOperation_t transa, transb;
  Index m, n, k;
  const void* a;
  Index lda;
  const void* b;
  Index ldb;
  void* c;
  Index ldc;
  bool round_to_tf32;
};

/// Rows and columns are those of the result.
template <class T>
Matrix<T> operand(cublasOperation_t op, const void* data, Index rows, Index columns, Index leading,
                  [[maybe_unused]] bool round_to_tf32) {
  const T* first = static_cast<const T*>(data);
  Matrix<T> values;
  if (op == CUBLAS_OP_N) {
    values = map(first, rows, columns, leading);
  } else {
    values = map(first, columns, rows, leading).transpose();
  }
  if constexpr (std::is_same_v<T, float>) {
    if (round_to_tf32) {
      values = values.unaryExpr([](float x) { return std::bit_cast<float>(ptx::round_to_tf32(x)); });
    }
  }
  return values;
}

/// c = alpha a b + beta c. Where beta is zero, c is not read: it may be anything.
template <class T>
void multiply(const Gemm& g, T alpha, T beta) {
  Matrix<T> product = Matrix<T>::Zero(g.m, g.n);
  if (alpha != T{0}) {
    product.noalias() = operand<T>(g.transa, g.a, g.m, g.k, g.lda, g.round_to_tf32) *
                        operand<T>(g.transb, g.b, g.k, g.n, g.ldb, g.round_to_tf32);
  }
  auto c = map(static_cast<T*>(g.c), g.m, g.n, g.ldc);
  if (beta == T{0}) {
    c = alpha * product;
  } else {
    c = alpha * product + beta * c;
  }
}

template <class T>
cublasStatus_t run_gemm(cublasHandle_t handle, const Gemm& g, const void* alpha, const void* beta) {
  const bool plain_a = g.transa == CUBLAS_OP_N, plain_b = g.transb == CUBLAS_OP_N;
  if (g.m < 0 || g.n < 0 || g.k < 0 || !valid(g.transa) || !valid(g.transb) ||
      !at_least(g.lda, plain_a ? g.m : g.k) || !at_least(g.ldb, plain_b ? g.k : g.n) ||
      !at_least(g.ldc, g.m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (g.m == 0 || g.n == 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  // The operands must exist even for a product that is only recorded.
  require_matrix(g.a, plain_a ? g.m : g.k, plain_a ? g.k : g.m, g.lda, sizeof(T), "matrix A of a product");
  require_matrix(g.b, plain_b ? g.k : g.n, plain_b ? g.n : g.k, g.ldb, sizeof(T), "matrix B of a product");
  require_matrix(g.c, g.m, g.n, g.ldc, sizeof(T), "matrix C of a product");
  const cudaError_t status =
      enqueue(handle->stream, [g, alpha = *static_cast<const T*>(alpha),
                               beta = *static_cast<const T*>(beta)] { multiply<T>(g, alpha, beta); });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace orthornn::emulator

namespace emulator = orthornn::emulator;

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (!emulator::device_exists()) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (emulator::refuse_during_capture() != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  emulator::require_device_memory(workspace, bytes, "the workspace of cuBLAS");
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                               const void* a, cudaDataType a_type, std::int64_t lda, const void* b,
                               cudaDataType b_type, std::int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute_type,
                               cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cudaDataType type = compute_type == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F;
  if (a_type != type || b_type != type || c_type != type) return CUBLAS_STATUS_NOT_SUPPORTED;
  const emulator::Gemm g{transa, transb, m,   n, k,   a,
                         lda,    b,      ldb, c, ldc, compute_type == CUBLAS_COMPUTE_32F_FAST_TF32};
  return type == CUDA_R_64F ? emulator::run_gemm<double>(handle, g, alpha, beta)
                            : emulator::run_gemm<float>(handle, g, alpha, beta);
}

cublasStatus_t cublasDgemmStridedBatched_64(cublasHandle_t handle, cublasOperation_t transa,
                                            cublasOperation_t transb, std::int64_t m, std::int64_t n,
                                            std::int64_t k, const double* alpha, const double* a,
                                            std::int64_t lda, long long a_stride, const double* b,
                                            std::int64_t ldb, long long b_stride, const double* beta,
                                            double* c, std::int64_t ldc, long long c_stride,
                                            std::int64_t batch_count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (std::int64_t i = 0; i < batch_count; ++i) {
    const emulator::Gemm g{transa, transb,           m,   n,    k, a + i * a_stride, lda, b + i * b_stride,
                           ldb,    c + i * c_stride, ldc, false};
    const cublasStatus_t status = emulator::run_gemm<double>(handle, g, alpha, beta);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}
