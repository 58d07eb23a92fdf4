#include "cuda/linalg/gemm.hpp"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"

namespace orthornn::cuda {
namespace {

/// cuBLAS requires a stride of at least one, also for a matrix without rows.
template <class T>
std::int64_t stride_of(const MatrixView<T>& matrix) {
  return std::max<Index>({matrix.stride, matrix.rows, 1});
}

template <class T>
cublasOperation_t operation(const Operand<T>& operand) {
  return operand.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

template <class T>
void gemm(T alpha, const Operand<T>& a, const Operand<T>& b, T beta, MatrixView<T> c, Precision precision) {
  assert(a.rows() == c.rows && b.cols() == c.cols && a.cols() == b.rows());
  if (c.rows == 0 || c.cols == 0) return;
  constexpr bool is_double = std::is_same_v<T, double>;
  constexpr cudaDataType_t type = is_double ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = is_double                      ? CUBLAS_COMPUTE_64F
                                      : precision == Precision::fp32 ? CUBLAS_COMPUTE_32F
                                                                     : CUBLAS_COMPUTE_32F_FAST_TF32;
  check(cublasGemmEx_64(context(c.device).blas(), operation(a), operation(b), c.rows, c.cols, a.cols(),
                        &alpha, a.matrix.data, type, stride_of(a.matrix), b.matrix.data, type,
                        stride_of(b.matrix), &beta, c.data, type, stride_of(c), compute,
                        CUBLAS_GEMM_DEFAULT));
}

template void gemm<float>(float, const Operand<float>&, const Operand<float>&, float, MatrixView<float>,
                          Precision);
template void gemm<double>(double, const Operand<double>&, const Operand<double>&, double, MatrixView<double>,
                           Precision);

}  // namespace orthornn::cuda
