#include "cuda/linalg/gemm.hpp"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "cuda/core/check.hpp"
#include "cuda/core/context.hpp"
#include "cuda/core/convert.hpp"
#include "cuda/linalg/aligned_columns.hpp"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/linalg/split_gemm.hpp"

namespace orthornn::cuda {
namespace {

template <class T>
cublasOperation_t operation(const Operand<T>& operand) {
  return operand.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

template <class T>
constexpr cudaDataType_t data_type;
template <>
constexpr cudaDataType_t data_type<float> = CUDA_R_32F;
template <>
constexpr cudaDataType_t data_type<double> = CUDA_R_64F;
#ifndef ORTHORNN_EMULATED_CUDA  // the emulator has no name for it
template <>
constexpr cudaDataType_t data_type<bfloat16> = CUDA_R_16BF;
#endif

template <class T>
cublasComputeType_t compute_type(Precision precision) {
  if (std::is_same_v<T, double>) return CUBLAS_COMPUTE_64F;
  return precision == Precision::fp32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
}

/// A block of an operand, by the rows and columns that it has in the product.
template <class T>
Operand<T> block_of(const Operand<T>& operand, Index row, Index col, Index rows, Index cols) {
  const MatrixView<const T>& m = operand.matrix;
  return operand.is_transposed ? Operand<T>(m.block(col, row, cols, rows), true)
                               : Operand<T>(m.block(row, col, rows, cols));
}

/// c <- alpha a b + beta c for operands of type P.
template <class T, class P>
void multiply(T alpha, const Operand<P>& a, const Operand<P>& b, T beta, MatrixView<T> c,
              cublasComputeType_t compute) {
  assert(a.rows() == c.rows && b.cols() == c.cols && a.cols() == b.rows());
  if (c.rows == 0 || c.cols == 0) return;
  check(cublasGemmEx_64(context(c.device).blas(), operation(a), operation(b), c.rows, c.cols, a.cols(),
                        &alpha, a.matrix.data, data_type<P>, stride_of(a.matrix), b.matrix.data, data_type<P>,
                        stride_of(b.matrix), &beta, c.data, data_type<T>, stride_of(c), compute,
                        CUBLAS_GEMM_DEFAULT));
}

/// Whether `multiply_columns` is faster. For few columns cuBLAS 13 often cuts sums of some hundred terms into
/// as many parts: 128 x 128 by 16 columns took 51 us on an H200, and takes 3 us by columns. Each column reads
/// `a` again, so beyond these sizes it gains little, and takes up to 2.8 times as long. Longer sums were not
/// timed.
bool is_faster_by_columns(Index rows, Index cols, Index depth) {
  constexpr Index most_columns = 16, most_rows = 1024, most_depth = 2048, most_numbers = Index{1} << 19;
  return depth > 0 && cols > 1 && cols <= most_columns && rows <= most_rows && depth <= most_depth &&
         rows * depth <= most_numbers;
}

/// c <- alpha a b + beta c, a matrix by a vector for each column of c, all in one call.
void multiply_columns(float alpha, const Operand<float>& a, const Operand<float>& b, float beta,
                      MatrixView<float> c) {
  assert(a.rows() == c.rows && b.cols() == c.cols && a.cols() == b.rows());
#ifdef ORTHORNN_EMULATED_CUDA
  // The emulator has no batched products of floats.
  multiply<float>(alpha, a, b, beta, c, CUBLAS_COMPUTE_32F);
#else
  if (c.rows == 0) return;
  const Index next_column = b.is_transposed ? 1 : stride_of(b.matrix);
  check(cublasGemmStridedBatchedEx_64(
      context(c.device).blas(), operation(a), operation(b), c.rows, 1, a.cols(), &alpha, a.matrix.data,
      CUDA_R_32F, stride_of(a.matrix), 0, b.matrix.data, CUDA_R_32F, stride_of(b.matrix), next_column, &beta,
      c.data, CUDA_R_32F, stride_of(c), stride_of(c), c.cols, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
#endif
}

/// c <- alpha a b + beta c, in blocks if it is large. cuBLAS is fastest where columns begin at multiples of
/// 16 bytes, and their lengths are such multiples. So sides that lie along a column are cut there, and what
/// is beyond has products of its own. An epoch of translation in tf32 with 24,849 classes takes 2.0 s with
/// blocks, and 2.7 s without.
template <class T, class P>
void multiply_in_blocks(T alpha, const Operand<P>& a, const Operand<P>& b, T beta, MatrixView<T> c,
                        cublasComputeType_t compute) {
  // Below, a kernel more costs as much as it saves.
  constexpr double large = 0x1p32;
  constexpr Index grain = 16 / sizeof(P);
  const Index rows = c.rows, cols = c.cols, depth = a.cols();
  const auto whole = [](Index size, bool is_along_columns) {
    return is_along_columns ? size / grain * grain : size;
  };
  const Index whole_rows = whole(rows, true), whole_cols = whole(cols, b.is_transposed),
              whole_depth = whole(depth, a.is_transposed || !b.is_transposed);
  const bool fits = whole_rows == rows && whole_cols == cols && whole_depth == depth;
  const double operations =
      2 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(depth);
  const bool can_fit = has_aligned_columns(a.matrix) && has_aligned_columns(b.matrix) &&
                       has_aligned_columns(c) && whole_depth > 0;
  if (fits || !can_fit || operations < large) return multiply<T>(alpha, a, b, beta, c, compute);
  const auto part = [&](Index row, Index col, Index first, Index row_count, Index col_count, Index count,
                        T by) {
    if (count > 0) {
      multiply<T>(alpha, block_of(a, row, first, row_count, count), block_of(b, first, col, count, col_count),
                  by, c.block(row, col, row_count, col_count), compute);
    }
  };
  part(0, 0, 0, whole_rows, whole_cols, whole_depth, beta);
  part(0, 0, whole_depth, whole_rows, whole_cols, depth - whole_depth, 1);
  part(0, whole_cols, 0, whole_rows, cols - whole_cols, depth, beta);
  part(whole_rows, 0, 0, rows - whole_rows, cols, depth, beta);
}

/// c <- alpha a b^T, a sum over many columns of both, which begin at no multiples of 16 bytes. Copies of some
/// columns at a time do, and so does a copy of c; numbers of padding reach only what is not copied back.
void multiply_copies(float alpha, const MatrixView<const float>& a, const MatrixView<const float>& b,
                     MatrixView<float> c, cublasComputeType_t compute) {
  constexpr Index grain = 16 / sizeof(float), most_numbers = Index{1} << 25;
  const auto padded = [](Index rows) { return (rows + grain - 1) / grain * grain; };
  const Index a_rows = padded(a.rows), b_rows = padded(b.rows);
  const Index most = std::max<Index>(1, std::min(a.cols, most_numbers / (a_rows + b_rows)));
  Context& gpu = context(c.device);
  float* const a_copy =
      gpu.scratch<float>(static_cast<std::size_t>((a_rows + b_rows) * most + a_rows * b_rows));
  float* const b_copy = a_copy + a_rows * most;
  float* const c_copy = b_copy + b_rows * most;
  for (Index first = 0; first < a.cols; first += most) {
    const Index count = std::min(most, a.cols - first);
    const auto copy = [&](const MatrixView<const float>& from, float* to, Index stride) {
      copy_matrix<float>(from.columns(first, count), {to, from.rows, count, stride, c.device});
      return MatrixView<const float>(to, stride, count, stride, c.device);
    };
    multiply<float>(alpha, Operand<float>(copy(a, a_copy, a_rows)),
                    Operand<float>(copy(b, b_copy, b_rows), true), first == 0 ? 0.0f : 1.0f,
                    MatrixView<float>(c_copy, a_rows, b_rows, a_rows, c.device), compute);
  }
  copy_matrix<float>({c_copy, c.rows, c.cols, a_rows, c.device}, c);
}

/// c <- alpha a b^T + beta c where columns begin at no multiples of 16 bytes, for precisions other than fp32.
/// Returns whether it did: otherwise cuBLAS is as fast, or the sizes were not timed. cuBLAS takes up to twice
/// as long for such columns. With both sides up to 641 rows split_gemm takes 0.55 to 0.92 of its time, with
/// 705 rows 0.95 to 1.05. Copies take 0.6 to 1.0 of it where both sides have more than 768. There split_gemm
/// would be faster for 1025 rows alone, of all that were timed (tools/bench-results/h200-gradients.csv).
bool try_multiply_unaligned(float alpha, const Operand<float>& a, const Operand<float>& b, float beta,
                            MatrixView<float> c, Precision precision) {
  constexpr Index fewest_rows = 768, fewest_columns = 4096, largest_copy = Index{1} << 24;
  if (a.is_transposed || !b.is_transposed || (has_aligned_columns(a.matrix) && has_aligned_columns(b.matrix)))
    return false;
  if (std::max(c.rows, c.cols) < fewest_rows && takes_split_gemm(c.device, c.rows, c.cols, a.cols())) {
    split_gemm(alpha, a.matrix, b.matrix, beta, c, precision);
    return true;
  }
  if (beta == 0 && c.rows * c.cols <= largest_copy && std::min(c.rows, c.cols) >= fewest_rows &&
      a.cols() >= fewest_columns) {
    multiply_copies(alpha, a.matrix, b.matrix, c, compute_type<float>(precision));
    return true;
  }
  return false;
}

}  // namespace

template <class T>
void gemm(T alpha, const Operand<T>& a, const Operand<T>& b, T beta, MatrixView<T> c, Precision precision) {
  const cublasComputeType_t compute = compute_type<T>(precision);
  if constexpr (std::is_same_v<T, float>) {
    if (precision == Precision::fp32) {
      if (is_faster_by_columns(c.rows, c.cols, a.cols())) return multiply_columns(alpha, a, b, beta, c);
      // Not for a matrix by its own transpose: sums of squares lose most there, and orthonormal columns are
      // made by them.
      if (!a.is_transposed && b.is_transposed && a.matrix.data != b.matrix.data &&
          takes_split_gemm(c.device, c.rows, c.cols, a.cols())) {
        return split_gemm(alpha, a.matrix, b.matrix, beta, c, precision);
      }
    } else if (try_multiply_unaligned(alpha, a, b, beta, c, precision)) {
      return;
    }
  }
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return multiply_in_blocks<T>(alpha, a, b, beta, c, compute);
  multiply<T>(alpha, a, b, beta, c, compute);
}

void gemm(const Operand<bfloat16>& a, const Operand<bfloat16>& b, float beta, MatrixView<float> c) {
#ifdef ORTHORNN_EMULATED_CUDA
  // The emulator has no products of bfloat16.
  const auto size_of = [](const Operand<bfloat16>& operand) {
    return operand.matrix.cols == 0 ? 0
                                    : (operand.matrix.cols - 1) * operand.matrix.stride + operand.matrix.rows;
  };
  float* const memory = context(c.device).scratch<float>(static_cast<std::size_t>(size_of(a) + size_of(b)));
  const auto as_floats = [&](const Operand<bfloat16>& operand, float* to) {
    const MatrixView<const bfloat16>& m = operand.matrix;
    const Shape shape{size_of(operand)};
    convert(TensorView<const bfloat16>(m.data, shape, m.device), TensorView<float>(to, shape, m.device));
    return Operand<float>(MatrixView<const float>(to, m.rows, m.cols, m.stride, m.device),
                          operand.is_transposed);
  };
  gemm<float>(1, as_floats(a, memory), as_floats(b, memory + size_of(a)), beta, c, Precision::fp32);
#else
  multiply_in_blocks<float>(1, a, b, beta, c, CUBLAS_COMPUTE_32F);
#endif
}

template <class T>
void gemm_in_parts(const Operand<T>& a, const Operand<T>& b, Index parts, T* c, Precision precision) {
  const Index rows = a.rows(), cols = b.cols(), depth = a.cols() / parts;
  assert(a.cols() == b.rows() && depth * parts == a.cols());
  if (rows == 0 || cols == 0) return;
  // From a part to the next: columns of a and rows of b, as they lie.
  const auto step = [&](const Operand<T>& operand, bool along_columns) {
    return along_columns ? depth * stride_of(operand.matrix) : depth;
  };
#ifdef ORTHORNN_EMULATED_CUDA
  // The emulator has no batched products of floats.
  const auto part = [&](const Operand<T>& operand, bool along_columns, Index p) {
    MatrixView<const T> m = operand.matrix;
    m.data += p * step(operand, along_columns);
    (along_columns ? m.cols : m.rows) = depth;
    return Operand<T>(m, operand.is_transposed);
  };
  for (Index p = 0; p < parts; ++p)
    gemm<T>(1, part(a, !a.is_transposed, p), part(b, b.is_transposed, p), 0,
            {c + p * rows * cols, rows, cols, rows, a.matrix.device}, precision);
#else
  constexpr cudaDataType_t type = data_type<T>;
  constexpr T one = 1, zero = 0;
  check(cublasGemmStridedBatchedEx_64(context(a.matrix.device).blas(), operation(a), operation(b), rows, cols,
                                      depth, &one, a.matrix.data, type, stride_of(a.matrix),
                                      step(a, !a.is_transposed), b.matrix.data, type, stride_of(b.matrix),
                                      step(b, b.is_transposed), &zero, c, type, rows, rows * cols, parts,
                                      compute_type<T>(precision), CUBLAS_GEMM_DEFAULT));
#endif
}

template void gemm<float>(float, const Operand<float>&, const Operand<float>&, float, MatrixView<float>,
                          Precision);
template void gemm<double>(double, const Operand<double>&, const Operand<double>&, double, MatrixView<double>,
                           Precision);
template void gemm_in_parts<float>(const Operand<float>&, const Operand<float>&, Index, float*, Precision);
template void gemm_in_parts<double>(const Operand<double>&, const Operand<double>&, Index, double*,
                                    Precision);

}  // namespace orthornn::cuda
