#pragma once

#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// Whether `split_gemm` takes such a product, because it is faster than cuBLAS's: of results that are small
/// beside the length of their sums, as the gradients of weights are, on a GPU with the instructions of
/// compute capability 9.0a.
bool takes_split_gemm(Device device, Index rows, Index cols, Index depth);

/// c <- alpha a b^T + beta c for a [rows, depth] and b [cols, depth], on tensor cores. Numbers are sums of
/// three bfloat16, 24 bits in all, and long sums are sums of floats. Results are off by less
/// than 2^-20 of themselves: as cuBLAS's of floats where terms have either sign, and up to four times as much
/// where all are positive. An infinite number makes its results NaN. The order of the sums depends on the
/// sizes alone.
void split_gemm(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                MatrixView<float> c);

}  // namespace orthornn::cuda
