#pragma once

#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn::cuda {

/// As orthornn::gemm, by cuBLAS or split_gemm.
template <class T>
void gemm(T alpha, const Operand<T>& a, const Operand<T>& b, T beta, MatrixView<T> c, Precision precision);

/// c <- a b + beta c of numbers with 8-bit significands, summed in float.
void gemm(const Operand<bfloat16>& a, const Operand<bfloat16>& b, float beta, MatrixView<float> c);

/// a b as a sum: part p [rows, cols] of `parts`, column-major and one after another in `c`, is the product of
/// part p of a's columns and of b's rows. `parts` divides them. Where the caller adds the parts, this saves a
/// kernel: cuBLAS cuts long sums too where the result has few tiles, and adds them in one of its own. It
/// takes no scratch memory, in which `c` may lie.
template <class T>
void gemm_in_parts(const Operand<T>& a, const Operand<T>& b, Index parts, T* c, Precision precision);

}  // namespace orthornn::cuda
