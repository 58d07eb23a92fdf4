#include <cmath>
#include <cstring>

#include "cusolverDn.h"
#include "matrix.hpp"
#include "runtime.hpp"

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};

struct cusolverDnParams {};

namespace orthornn::emulator {
namespace {

using Index = std::int64_t;

bool supported(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_64F; }
std::size_t bytes_of(cudaDataType type) { return type == CUDA_R_64F ? 8 : 4; }
bool at_least(Index leading, Index rows) { return leading >= std::max<Index>(1, rows); }

/// Calls `function` with a value of the type.
template <class Function>
void with_type(cudaDataType type, Function function) {
  if (type == CUDA_R_64F) {
    function(double{});
  } else {
    function(float{});
  }
}

/// Buffers that we do not need, but whoever calls us has to give: what they held is lost.
std::size_t buffer_bytes(Index m, Index n, cudaDataType type) {
  return static_cast<std::size_t>(std::max<Index>(1, std::min(m, n)) * 32) * bytes_of(type);
}

void scribble(void* buffer, std::size_t bytes) { std::memset(buffer, 0xFF, bytes); }

cusolverStatus_t run(cusolverDnHandle_t handle, std::function<void()> work) {
  return enqueue(handle->stream, std::move(work)) == cudaSuccess ? CUSOLVER_STATUS_SUCCESS
                                                                 : CUSOLVER_STATUS_EXECUTION_FAILED;
}

void exchange_rows(auto& a, Index row, Index other) {
  if (row != other) a.row(row).swap(a.row(other));
}

/// As LAPACK's getrf, by columns; returns the first pivot that is zero, from one on, or zero.
template <class T>
int factorise(T* data, Index m, Index n, Index lda, std::int64_t* pivots) {
  auto a = map(data, m, n, lda);
  int info = 0;
  for (Index j = 0; j < std::min(m, n); ++j) {
    if (pivots != nullptr) {
      Index pivot = 0;
      a.col(j).tail(m - j).cwiseAbs().maxCoeff(&pivot);
      pivots[j] = j + pivot + 1;
      exchange_rows(a, j, j + pivot);
    }
    if (a(j, j) == T{0}) {
      if (info == 0) info = static_cast<int>(j) + 1;
      continue;
    }
    a.col(j).tail(m - j - 1) /= a(j, j);
    a.bottomRightCorner(m - j - 1, n - j - 1).noalias() -=
        a.col(j).tail(m - j - 1) * a.row(j).tail(n - j - 1);
  }
  return info;
}

template <class T>
void solve(cublasOperation_t trans, const T* factors, Index n, Index lda, const std::int64_t* pivots,
           T* right, Index nrhs, Index ldb) {
  const Matrix<T> a = map(factors, n, n, lda);
  auto b = map(right, n, nrhs, ldb);
  if (trans == CUBLAS_OP_N) {
    for (Index i = 0; pivots != nullptr && i < n; ++i) exchange_rows(b, i, pivots[i] - 1);
    a.template triangularView<Eigen::UnitLower>().solveInPlace(b);
    a.template triangularView<Eigen::Upper>().solveInPlace(b);
  } else {
    a.transpose().template triangularView<Eigen::Lower>().solveInPlace(b);
    a.transpose().template triangularView<Eigen::UnitUpper>().solveInPlace(b);
    for (Index i = n - 1; pivots != nullptr && i >= 0; --i) exchange_rows(b, i, pivots[i] - 1);
  }
}

}  // namespace
}  // namespace orthornn::emulator

namespace emulator = orthornn::emulator;

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (!emulator::device_exists()) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (emulator::refuse_during_capture() != cudaSuccess) return CUSOLVER_STATUS_ALLOC_FAILED;
  *handle = new cusolverDnContext;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) {
  *params = new cusolverDnParams;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) {
  delete params;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, std::int64_t m,
                                             std::int64_t n, cudaDataType a_type, const void*,
                                             std::int64_t lda, cudaDataType compute_type,
                                             std::size_t* device_bytes, std::size_t* host_bytes) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || !emulator::at_least(lda, m)) return CUSOLVER_STATUS_INVALID_VALUE;
  if (!emulator::supported(a_type) || compute_type != a_type) return CUSOLVER_STATUS_NOT_SUPPORTED;
  *device_bytes = emulator::buffer_bytes(m, n, a_type);
  *host_bytes = 0;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t params, std::int64_t m,
                                  std::int64_t n, cudaDataType a_type, void* a, std::int64_t lda,
                                  std::int64_t* pivots, cudaDataType compute_type, void* device_buffer,
                                  std::size_t device_bytes, void*, std::size_t, int* info) {
  std::size_t needed = 0, on_host = 0;
  const auto status =
      cusolverDnXgetrf_bufferSize(handle, params, m, n, a_type, a, lda, compute_type, &needed, &on_host);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  if (device_bytes < needed) return CUSOLVER_STATUS_INVALID_VALUE;
  emulator::require_matrix(a, m, n, lda, emulator::bytes_of(a_type), "the matrix of getrf");
  emulator::require_device_memory(device_buffer, device_bytes, "the buffer of getrf");
  emulator::require_device_memory(info, sizeof(int), "the info of getrf");
  if (pivots != nullptr) {
    emulator::require_device_memory(pivots, static_cast<std::size_t>(std::min(m, n)) * sizeof(*pivots),
                                    "the pivots of getrf");
  }
  return emulator::run(handle, [=] {
    emulator::scribble(device_buffer, device_bytes);
    emulator::with_type(
        a_type, [=]<class T>(T) { *info = emulator::factorise(static_cast<T*>(a), m, n, lda, pivots); });
  });
}

cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t, cublasOperation_t trans,
                                  std::int64_t n, std::int64_t nrhs, cudaDataType a_type, const void* a,
                                  std::int64_t lda, const std::int64_t* pivots, cudaDataType b_type, void* b,
                                  std::int64_t ldb, int* info) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (n < 0 || nrhs < 0 || !emulator::at_least(lda, n) || !emulator::at_least(ldb, n)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  if (!emulator::supported(a_type) || b_type != a_type) return CUSOLVER_STATUS_NOT_SUPPORTED;
  emulator::require_matrix(a, n, n, lda, emulator::bytes_of(a_type), "the factors of getrs");
  emulator::require_matrix(b, n, nrhs, ldb, emulator::bytes_of(a_type), "the right-hand side of getrs");
  emulator::require_device_memory(info, sizeof(int), "the info of getrs");
  if (pivots != nullptr) {
    emulator::require_device_memory(pivots, static_cast<std::size_t>(n) * sizeof(*pivots),
                                    "the pivots of getrs");
  }
  return emulator::run(handle, [=] {
    emulator::with_type(a_type, [=]<class T>(T) {
      emulator::solve(trans, static_cast<const T*>(a), n, lda, pivots, static_cast<T*>(b), nrhs, ldb);
    });
    *info = 0;
  });
}
