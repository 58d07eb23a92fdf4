#pragma once

#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// As orthornn::gemm, by cuBLAS.
template <class T>
void gemm(T alpha, const Operand<T>& a, const Operand<T>& b, T beta, MatrixView<T> c, Precision precision);

}  // namespace orthornn::cuda
