#include <Eigen/Dense>
#include <type_traits>

#include "cublas_v2.h"
#include "cuda_bf16.h"
#include "emulated_ptx.hpp"
#include "emulator/fail.hpp"
#include "matrix.hpp"
#include "runtime.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
};

namespace orthornn::emulator {
namespace {

using Index = std::int64_t;

bool at_least(Index leading, Index rows) { return leading >= std::max<Index>(1, rows); }
bool valid(cublasOperation_t op) { return op >= CUBLAS_OP_N && op <= CUBLAS_OP_C; }

cublasStatus_t run(cublasHandle_t handle, std::function<void()> work) {
  return enqueue(handle->stream, std::move(work)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

/// A factor that is read when cuBLAS reads it: at the call if it is the host's, by the device otherwise.
template <class T>
class Scalar {
 public:
  Scalar(cublasHandle_t handle, const void* address)
      : on_device_(handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE),
        address_(static_cast<const T*>(address)),
        value_(on_device_ ? T{} : *address_) {
    if (on_device_) require_device_memory(address, sizeof(T), "a factor for cuBLAS");
  }
  T value() const { return on_device_ ? *address_ : value_; }

 private:
  bool on_device_;
  const T* address_;
  T value_;
};

template <class T>
Matrix<T> transposed_if(cublasOperation_t op, const T* data, Index rows, Index columns, Index leading) {
  // Rows and columns are those of the result.
  if (op == CUBLAS_OP_N) return map(data, rows, columns, leading);
  return map(data, columns, rows, leading).transpose();
}

/// c = alpha product + beta c. Where beta is zero, c is not read: it may be anything.
template <class T, class Product, class Result>
void accumulate(T alpha, const Product& product, T beta, Result&& c) {
  if (beta == T{0}) {
    c = alpha * product;
  } else {
    c = alpha * product + beta * c;
  }
}

struct Gemm {
  cublasOperation_t transa, transb;
  Index m, n, k;
  const void* a;
  cudaDataType a_type;
  Index lda, a_stride;
  const void* b;
  cudaDataType b_type;
  Index ldb, b_stride;
  void* c;
  cudaDataType c_type;
  Index ldc, c_stride;
  Index count;
  bool round_to_tf32;
};

std::size_t bytes_of(cudaDataType type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

const void* advanced(const void* data, cudaDataType type, Index elements) {
  return static_cast<const char*>(data) + elements * static_cast<Index>(bytes_of(type));
}

template <class T>
Matrix<T> operand(cublasOperation_t op, const void* data, cudaDataType type, Index rows, Index columns,
                  Index leading, bool round_to_tf32) {
  if constexpr (std::is_same_v<T, float>) {
    Matrix<float> values;
    if (type == CUDA_R_16BF) {
      const Matrix<unsigned short> bits =
          transposed_if(op, static_cast<const unsigned short*>(data), rows, columns, leading);
      values = bits.unaryExpr([](unsigned short x) { return static_cast<float>(__ushort_as_bfloat16(x)); });
    } else {
      values = transposed_if(op, static_cast<const float*>(data), rows, columns, leading);
    }
    if (!round_to_tf32) return values;
    return values.unaryExpr([](float x) { return std::bit_cast<float>(ptx::round_to_tf32(x)); });
  } else {
    return transposed_if(op, static_cast<const T*>(data), rows, columns, leading);
  }
}

template <class T>
void multiply(const Gemm& g, T alpha, T beta) {
  for (Index i = 0; i < g.count; ++i) {
    Matrix<T> product = Matrix<T>::Zero(g.m, g.n);
    if (alpha != T{0}) {
      product.noalias() = operand<T>(g.transa, advanced(g.a, g.a_type, i * g.a_stride), g.a_type, g.m, g.k,
                                     g.lda, g.round_to_tf32) *
                          operand<T>(g.transb, advanced(g.b, g.b_type, i * g.b_stride), g.b_type, g.k, g.n,
                                     g.ldb, g.round_to_tf32);
    }
    void* c = const_cast<void*>(advanced(g.c, g.c_type, i * g.c_stride));
    if constexpr (std::is_same_v<T, float>) {
      if (g.c_type == CUDA_R_16BF) {
        auto bits = map(static_cast<unsigned short*>(c), g.m, g.n, g.ldc);
        Matrix<float> values(g.m, g.n);
        if (beta != 0) {
          values =
              bits.unaryExpr([](unsigned short x) { return static_cast<float>(__ushort_as_bfloat16(x)); });
        }
        accumulate(alpha, product, beta, values);
        bits = values.unaryExpr([](float x) { return __bfloat16_as_ushort(x); });
        continue;
      }
    }
    accumulate(alpha, product, beta, map(static_cast<T*>(c), g.m, g.n, g.ldc));
  }
}

cublasStatus_t check(const Gemm& g) {
  if (g.m < 0 || g.n < 0 || g.k < 0 || g.count < 0 || !valid(g.transa) || !valid(g.transb)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!at_least(g.lda, g.transa == CUBLAS_OP_N ? g.m : g.k) ||
      !at_least(g.ldb, g.transb == CUBLAS_OP_N ? g.k : g.n) || !at_least(g.ldc, g.m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Operands in memory, other than the factors' values, have to be there even for what is only recorded.
void require_operands(const Gemm& g) {
  for (Index i = 0; i < g.count; ++i) {
    const bool at_a = g.transa == CUBLAS_OP_N, at_b = g.transb == CUBLAS_OP_N;
    require_matrix(advanced(g.a, g.a_type, i * g.a_stride), at_a ? g.m : g.k, at_a ? g.k : g.m, g.lda,
                   bytes_of(g.a_type), "matrix A of a product");
    require_matrix(advanced(g.b, g.b_type, i * g.b_stride), at_b ? g.k : g.n, at_b ? g.n : g.k, g.ldb,
                   bytes_of(g.b_type), "matrix B of a product");
    require_matrix(advanced(g.c, g.c_type, i * g.c_stride), g.m, g.n, g.ldc, bytes_of(g.c_type),
                   "matrix C of a product");
  }
}

template <class T>
cublasStatus_t run_gemm(cublasHandle_t handle, const Gemm& g, const void* alpha, const void* beta) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (const cublasStatus_t status = check(g); status != CUBLAS_STATUS_SUCCESS) return status;
  if (g.m == 0 || g.n == 0 || g.count == 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  require_operands(g);
  return run(handle, [g, alpha = Scalar<T>(handle, alpha), beta = Scalar<T>(handle, beta)] {
    multiply<T>(g, alpha.value(), beta.value());
  });
}

/// By the type of computation; for operands of one type or, in single precision, of bf16.
cublasStatus_t run_gemm_ex(cublasHandle_t handle, Gemm g, cublasComputeType_t compute_type, const void* alpha,
                           const void* beta) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (compute_type == CUBLAS_COMPUTE_64F || compute_type == CUBLAS_COMPUTE_64F_PEDANTIC) {
    if (g.a_type != CUDA_R_64F || g.b_type != CUDA_R_64F || g.c_type != CUDA_R_64F) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return run_gemm<double>(handle, g, alpha, beta);
  }
  const bool floats = g.a_type == CUDA_R_32F && g.b_type == CUDA_R_32F && g.c_type == CUDA_R_32F;
  const bool halves = g.a_type == CUDA_R_16BF && g.b_type == CUDA_R_16BF &&
                      (g.c_type == CUDA_R_32F || g.c_type == CUDA_R_16BF);
  switch (compute_type) {
    case CUBLAS_COMPUTE_32F:
      if (!floats && !halves) return CUBLAS_STATUS_NOT_SUPPORTED;
      g.round_to_tf32 = floats && handle->math_mode == CUBLAS_TF32_TENSOR_OP_MATH;
      return run_gemm<float>(handle, g, alpha, beta);
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return floats || halves ? run_gemm<float>(handle, g, alpha, beta) : CUBLAS_STATUS_NOT_SUPPORTED;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      g.round_to_tf32 = true;
      return floats ? run_gemm<float>(handle, g, alpha, beta) : CUBLAS_STATUS_NOT_SUPPORTED;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

template <class T>
constexpr cudaDataType data_type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m,
                    Index n, Index k, const T* alpha, const T* a, Index lda, const T* b, Index ldb,
                    const T* beta, T* c, Index ldc) {
  constexpr cublasComputeType_t compute_type =
      std::is_same_v<T, float> ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F;
  const Gemm g{transa, transb,       m,   n, k, a,    data_type<T>, lda, 0, b, data_type<T>, ldb, 0,
               c,      data_type<T>, ldc, 0, 1, false};
  return run_gemm_ex(handle, g, compute_type, alpha, beta);
}

/// c = alpha op(a) + beta op(b), where c may be a or b if that is not transposed.
template <class T>
cublasStatus_t geam(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, Index m,
                    Index n, const T* alpha, const T* a, Index lda, const T* beta, const T* b, Index ldb,
                    T* c, Index ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool plain_a = transa == CUBLAS_OP_N, plain_b = transb == CUBLAS_OP_N;
  if (m < 0 || n < 0 || !valid(transa) || !valid(transb) || alpha == nullptr || beta == nullptr ||
      !at_least(lda, plain_a ? m : n) || !at_least(ldb, plain_b ? m : n) || !at_least(ldc, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if ((c == a && (!plain_a || lda != ldc)) || (c == b && (!plain_b || ldb != ldc)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const Scalar<T> alpha_(handle, alpha), beta_(handle, beta);
  require_matrix(c, m, n, ldc, sizeof(T), "matrix C of a sum");
  return run(handle, [=] {
    Matrix<T> sum = Matrix<T>::Zero(m, n);
    // What has no weight may not be there.
    if (alpha_.value() != T{0}) {
      require_matrix(a, plain_a ? m : n, plain_a ? n : m, lda, sizeof(T), "matrix A of a sum");
      sum += alpha_.value() * transposed_if(transa, a, m, n, lda);
    }
    if (beta_.value() != T{0}) {
      require_matrix(b, plain_b ? m : n, plain_b ? n : m, ldb, sizeof(T), "matrix B of a sum");
      sum += beta_.value() * transposed_if(transb, b, m, n, ldb);
    }
    map(c, m, n, ldc) = sum;
  });
}

/// b = inverse(op(a)) b of a triangular matrix of which only the given half is read.
template <class T, class Right>
void solve_triangular(bool lower, bool transpose, bool unit, const Matrix<T>& a, Right&& b) {
  const Matrix<T> op = transpose ? Matrix<T>(a.transpose()) : a;
  if (lower != transpose) {
    unit ? op.template triangularView<Eigen::UnitLower>().solveInPlace(b)
         : op.template triangularView<Eigen::Lower>().solveInPlace(b);
  } else {
    unit ? op.template triangularView<Eigen::UnitUpper>().solveInPlace(b)
         : op.template triangularView<Eigen::Upper>().solveInPlace(b);
  }
}

template <class T>
cublasStatus_t trsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,
                    cublasOperation_t trans, cublasDiagType_t diagonal, Index m, Index n, const T* alpha,
                    const T* a, Index lda, T* b, Index ldb) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool left = side == CUBLAS_SIDE_LEFT;
  const Index size = left ? m : n;
  if (m < 0 || n < 0 || !valid(trans) || !at_least(lda, size) || !at_least(ldb, m) || alpha == nullptr ||
      uplo == CUBLAS_FILL_MODE_FULL) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  require_matrix(a, size, size, lda, sizeof(T), "the matrix of a triangular solve");
  require_matrix(b, m, n, ldb, sizeof(T), "the right-hand side of a triangular solve");
  return run(handle, [=, alpha = Scalar<T>(handle, alpha)] {
    const Matrix<T> matrix = map(a, size, size, lda);
    const bool lower = uplo == CUBLAS_FILL_MODE_LOWER, transpose = trans != CUBLAS_OP_N;
    const bool unit = diagonal == CUBLAS_DIAG_UNIT;
    auto target = map(b, m, n, ldb);
    if (alpha.value() == T{0}) {
      target.setZero();
    } else if (left) {
      Matrix<T> right = alpha.value() * target;
      solve_triangular(lower, transpose, unit, matrix, right);
      target = right;
    } else {  // x op(a) = b is op(a)^T x^T = b^T
      Matrix<T> right = alpha.value() * target.transpose();
      solve_triangular(lower, !transpose, unit, matrix, right);
      target = right.transpose();
    }
  });
}

/// A vector of the caller's; negative increments go backwards from its end.
template <class T>
auto map_vector(T* data, Index size, Index increment) {
  using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>;
  using Constant = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  T* first = increment < 0 ? data - (size - 1) * increment : data;
  return Eigen::Map<Constant, 0, Eigen::InnerStride<>>(first, size, Eigen::InnerStride<>(increment));
}

template <class T>
void require_vector(const T* data, Index size, Index increment, const char* what) {
  require_device_memory(data, static_cast<std::size_t>((size - 1) * std::abs(increment) + 1) * sizeof(T),
                        what);
}

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t trans, Index m, Index n, const T* alpha,
                    const T* a, Index lda, const T* x, Index incx, const T* beta, T* y, Index incy) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || !valid(trans) || !at_least(lda, m) || incx == 0 || incy == 0 || alpha == nullptr ||
      beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const Index rows = trans == CUBLAS_OP_N ? m : n, columns = trans == CUBLAS_OP_N ? n : m;
  require_matrix(a, m, n, lda, sizeof(T), "the matrix of a product with a vector");
  require_vector(x, columns, incx, "the vector x of a product");
  require_vector(y, rows, incy, "the vector y of a product");
  return run(handle, [=, alpha = Scalar<T>(handle, alpha), beta = Scalar<T>(handle, beta)] {
    const Matrix<T> product = transposed_if(trans, a, rows, columns, lda) * map_vector(x, columns, incx);
    accumulate(alpha.value(), product, beta.value(), map_vector(y, rows, incy));
  });
}

template <class T>
cublasStatus_t dgmm(cublasHandle_t handle, cublasSideMode_t mode, Index m, Index n, const T* a, Index lda,
                    const T* x, Index incx, T* c, Index ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || !at_least(lda, m) || !at_least(ldc, m)) return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const bool left = mode == CUBLAS_SIDE_LEFT;
  require_matrix(a, m, n, lda, sizeof(T), "the matrix of a product with a diagonal");
  require_vector(x, left ? m : n, incx, "the diagonal of a product");
  require_matrix(c, m, n, ldc, sizeof(T), "the result of a product with a diagonal");
  return run(handle, [=] {
    const auto diagonal = map_vector(x, left ? m : n, incx).asDiagonal();
    const Matrix<T> matrix = map(a, m, n, lda);
    if (left) {
      map(c, m, n, ldc) = diagonal * matrix;
    } else {
      map(c, m, n, ldc) = matrix * diagonal;
    }
  });
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

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  emulator::require_device_memory(workspace, bytes, "the workspace of cuBLAS");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math_mode = static_cast<cublasMath_t>(mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = handle->pointer_mode;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                               const void* a, cudaDataType a_type, std::int64_t lda, const void* b,
                               cudaDataType b_type, std::int64_t ldb, const void* beta, void* c,
                               cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute_type,
                               cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx_64(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                       ldb, 0, beta, c, c_type, ldc, 0, 1, compute_type, algorithm);
}

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, std::int64_t m, std::int64_t n,
    std::int64_t k, const void* alpha, const void* a, cudaDataType a_type, std::int64_t lda,
    long long a_stride, const void* b, cudaDataType b_type, std::int64_t ldb, long long b_stride,
    const void* beta, void* c, cudaDataType c_type, std::int64_t ldc, long long c_stride,
    std::int64_t batch_count, cublasComputeType_t compute_type, cublasGemmAlgo_t) {
  const emulator::Gemm g{transa, transb, m,        n, k,      a,   a_type,   lda,         a_stride, b,
                         b_type, ldb,    b_stride, c, c_type, ldc, c_stride, batch_count, false};
  return emulator::run_gemm_ex(handle, g, compute_type, alpha, beta);
}

#define ORTHORNN_EMULATED_CUBLAS(letter, T)                                                                  \
  cublasStatus_t cublas##letter##gemmStridedBatched_64(                                                      \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, std::int64_t m,             \
      std::int64_t n, std::int64_t k, const T* alpha, const T* a, std::int64_t lda, long long a_stride,      \
      const T* b, std::int64_t ldb, long long b_stride, const T* beta, T* c, std::int64_t ldc,               \
      long long c_stride, std::int64_t batch_count) {                                                        \
    constexpr cudaDataType type = emulator::data_type<T>;                                                    \
    return cublasGemmStridedBatchedEx_64(handle, transa, transb, m, n, k, alpha, a, type, lda, a_stride, b,  \
                                         type, ldb, b_stride, beta, c, type, ldc, c_stride, batch_count,     \
                                         type == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,       \
                                         CUBLAS_GEMM_DEFAULT);                                               \
  }                                                                                                          \
  cublasStatus_t cublas##letter##gemm_64(                                                                    \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, std::int64_t m,             \
      std::int64_t n, std::int64_t k, const T* alpha, const T* a, std::int64_t lda, const T* b,              \
      std::int64_t ldb, const T* beta, T* c, std::int64_t ldc) {                                             \
    return emulator::gemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);             \
  }                                                                                                          \
  cublasStatus_t cublas##letter##geam_64(cublasHandle_t handle, cublasOperation_t transa,                    \
                                         cublasOperation_t transb, std::int64_t m, std::int64_t n,           \
                                         const T* alpha, const T* a, std::int64_t lda, const T* beta,        \
                                         const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {             \
    return emulator::geam(handle, transa, transb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);                \
  }                                                                                                          \
  cublasStatus_t cublas##letter##trsm_64(                                                                    \
      cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t trans,          \
      cublasDiagType_t diagonal, std::int64_t m, std::int64_t n, const T* alpha, const T* a,                 \
      std::int64_t lda, T* b, std::int64_t ldb) {                                                            \
    return emulator::trsm(handle, side, uplo, trans, diagonal, m, n, alpha, a, lda, b, ldb);                 \
  }                                                                                                          \
  cublasStatus_t cublas##letter##gemv_64(                                                                    \
      cublasHandle_t handle, cublasOperation_t trans, std::int64_t m, std::int64_t n, const T* alpha,        \
      const T* a, std::int64_t lda, const T* x, std::int64_t incx, const T* beta, T* y, std::int64_t incy) { \
    return emulator::gemv(handle, trans, m, n, alpha, a, lda, x, incx, beta, y, incy);                       \
  }                                                                                                          \
  cublasStatus_t cublas##letter##dgmm_64(cublasHandle_t handle, cublasSideMode_t mode, std::int64_t m,       \
                                         std::int64_t n, const T* a, std::int64_t lda, const T* x,           \
                                         std::int64_t incx, T* c, std::int64_t ldc) {                        \
    return emulator::dgmm(handle, mode, m, n, a, lda, x, incx, c, ldc);                                      \
  }

ORTHORNN_EMULATED_CUBLAS(S, float)
ORTHORNN_EMULATED_CUBLAS(D, double)
