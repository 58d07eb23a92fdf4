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

/// Returns the first zero of the diagonal, from one on, or zero.
template <class T>
int invert_triangular(bool lower, bool unit, T* data, Index n, Index lda) {
  auto a = map(data, n, n, lda);
  for (Index i = 0; !unit && i < n; ++i) {
    if (a(i, i) == T{0}) return static_cast<int>(i) + 1;
  }
  const Matrix<T> matrix = a;
  Matrix<T> inverse = Matrix<T>::Identity(n, n);
  if (lower) {
    unit ? matrix.template triangularView<Eigen::UnitLower>().solveInPlace(inverse)
         : matrix.template triangularView<Eigen::Lower>().solveInPlace(inverse);
  } else {
    unit ? matrix.template triangularView<Eigen::UnitUpper>().solveInPlace(inverse)
         : matrix.template triangularView<Eigen::Upper>().solveInPlace(inverse);
  }
  // The other half stays as it is, and so does a diagonal of ones that is not stored.
  if (lower && unit) a.template triangularView<Eigen::StrictlyLower>() = inverse;
  if (lower && !unit) a.template triangularView<Eigen::Lower>() = inverse;
  if (!lower && unit) a.template triangularView<Eigen::StrictlyUpper>() = inverse;
  if (!lower && !unit) a.template triangularView<Eigen::Upper>() = inverse;
  return 0;
}

template <class T>
void factorise_qr(T* data, Index m, Index n, Index lda, T* tau) {
  auto a = map(data, m, n, lda);
  const Eigen::HouseholderQR<Matrix<T>> qr(a);
  a = qr.matrixQR();
  for (Index i = 0; i < std::min(m, n); ++i) tau[i] = qr.hCoeffs()(i);
}

/// The first n columns of the product of k reflections.
template <class T>
void generate_q(T* data, Index m, Index n, Index k, Index lda, const T* tau) {
  const Matrix<T> vectors = map(data, m, k, lda);
  const Eigen::Matrix<T, Eigen::Dynamic, 1> coefficients =
      Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(tau, k);
  Matrix<T> q = Matrix<T>::Identity(m, n);
  q.applyOnTheLeft(Eigen::householderSequence(vectors, coefficients));
  map(data, m, n, lda) = q;
}

template <class T>
cusolverStatus_t orgqr(cusolverDnHandle_t handle, int m, int n, int k, T* a, int lda, const T* tau, T* buffer,
                       int size, int* info) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || n > m || k < 0 || k > n || !at_least(lda, m)) return CUSOLVER_STATUS_INVALID_VALUE;
  constexpr cudaDataType type = std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F;
  const std::size_t bytes = static_cast<std::size_t>(std::max(0, size)) * sizeof(T);
  if (bytes < buffer_bytes(m, n, type)) return CUSOLVER_STATUS_INVALID_VALUE;
  require_matrix(a, m, n, lda, sizeof(T), "the matrix of orgqr");
  require_device_memory(tau, static_cast<std::size_t>(k) * sizeof(T), "the factors of orgqr");
  require_device_memory(buffer, bytes, "the buffer of orgqr");
  require_device_memory(info, sizeof(int), "the info of orgqr");
  return run(handle, [=] {
    scribble(buffer, bytes);
    generate_q<T>(a, m, n, k, lda, tau);
    *info = 0;
  });
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

cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
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

cusolverStatus_t cusolverDnXtrtri_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t uplo,
                                             cublasDiagType_t, std::int64_t n, cudaDataType a_type, void*,
                                             std::int64_t lda, std::size_t* device_bytes,
                                             std::size_t* host_bytes) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (n < 0 || !emulator::at_least(lda, n) || uplo == CUBLAS_FILL_MODE_FULL)
    return CUSOLVER_STATUS_INVALID_VALUE;
  if (!emulator::supported(a_type)) return CUSOLVER_STATUS_NOT_SUPPORTED;
  *device_bytes = emulator::buffer_bytes(n, n, a_type);
  *host_bytes = 0;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXtrtri(cusolverDnHandle_t handle, cublasFillMode_t uplo, cublasDiagType_t diagonal,
                                  std::int64_t n, cudaDataType a_type, void* a, std::int64_t lda,
                                  void* device_buffer, std::size_t device_bytes, void*, std::size_t,
                                  int* info) {
  std::size_t needed = 0, on_host = 0;
  const auto status =
      cusolverDnXtrtri_bufferSize(handle, uplo, diagonal, n, a_type, a, lda, &needed, &on_host);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  if (device_bytes < needed) return CUSOLVER_STATUS_INVALID_VALUE;
  emulator::require_matrix(a, n, n, lda, emulator::bytes_of(a_type), "the matrix of trtri");
  emulator::require_device_memory(device_buffer, device_bytes, "the buffer of trtri");
  emulator::require_device_memory(info, sizeof(int), "the info of trtri");
  return emulator::run(handle, [=] {
    emulator::scribble(device_buffer, device_bytes);
    emulator::with_type(a_type, [=]<class T>(T) {
      *info = emulator::invert_triangular(uplo == CUBLAS_FILL_MODE_LOWER, diagonal == CUBLAS_DIAG_UNIT,
                                          static_cast<T*>(a), n, lda);
    });
  });
}

cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t, std::int64_t m,
                                             std::int64_t n, cudaDataType a_type, const void*,
                                             std::int64_t lda, cudaDataType tau_type, const void*,
                                             cudaDataType compute_type, std::size_t* device_bytes,
                                             std::size_t* host_bytes) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || !emulator::at_least(lda, m)) return CUSOLVER_STATUS_INVALID_VALUE;
  if (!emulator::supported(a_type) || tau_type != a_type || compute_type != a_type) {
    return CUSOLVER_STATUS_NOT_SUPPORTED;
  }
  *device_bytes = emulator::buffer_bytes(m, n, a_type);
  *host_bytes = 0;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t params, std::int64_t m,
                                  std::int64_t n, cudaDataType a_type, void* a, std::int64_t lda,
                                  cudaDataType tau_type, void* tau, cudaDataType compute_type,
                                  void* device_buffer, std::size_t device_bytes, void*, std::size_t,
                                  int* info) {
  std::size_t needed = 0, on_host = 0;
  const auto status = cusolverDnXgeqrf_bufferSize(handle, params, m, n, a_type, a, lda, tau_type, tau,
                                                  compute_type, &needed, &on_host);
  if (status != CUSOLVER_STATUS_SUCCESS) return status;
  if (device_bytes < needed) return CUSOLVER_STATUS_INVALID_VALUE;
  emulator::require_matrix(a, m, n, lda, emulator::bytes_of(a_type), "the matrix of geqrf");
  emulator::require_device_memory(tau, static_cast<std::size_t>(std::min(m, n)) * emulator::bytes_of(a_type),
                                  "the factors of geqrf");
  emulator::require_device_memory(device_buffer, device_bytes, "the buffer of geqrf");
  emulator::require_device_memory(info, sizeof(int), "the info of geqrf");
  return emulator::run(handle, [=] {
    emulator::scribble(device_buffer, device_bytes);
    emulator::with_type(a_type, [=]<class T>(T) {
      emulator::factorise_qr(static_cast<T*>(a), m, n, lda, static_cast<T*>(tau));
    });
    *info = 0;
  });
}

cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, const float*,
                                             int lda, const float*, int* size) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || n > m || k < 0 || k > n || !emulator::at_least(lda, m))
    return CUSOLVER_STATUS_INVALID_VALUE;
  *size = static_cast<int>(emulator::buffer_bytes(m, n, CUDA_R_32F) / sizeof(float));
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDorgqr_bufferSize(cusolverDnHandle_t handle, int m, int n, int k, const double*,
                                             int lda, const double*, int* size) {
  return cusolverDnSorgqr_bufferSize(handle, m, n, k, nullptr, lda, nullptr, size);
}

cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t handle, int m, int n, int k, float* a, int lda,
                                  const float* tau, float* buffer, int size, int* info) {
  return emulator::orgqr(handle, m, n, k, a, lda, tau, buffer, size, info);
}

cusolverStatus_t cusolverDnDorgqr(cusolverDnHandle_t handle, int m, int n, int k, double* a, int lda,
                                  const double* tau, double* buffer, int size, int* info) {
  return emulator::orgqr(handle, m, n, k, a, lda, tau, buffer, size, info);
}
