#pragma once

#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn::cuda {

/// Whether `split_gemm` takes such a product: one of 2^25 multiplications or more, with sums of 4096 terms or
/// more, as the gradients of weights have them, whose tiles use 40 % of a large GPU or more, on a GPU with
/// the instructions of compute capability 9.0a.
bool takes_split_gemm(Device device, Index rows, Index cols, Index depth);

/// c <- alpha a b^T + beta c for a [rows, depth] and b [cols, depth] that `takes_split_gemm` accepts, on
/// tensor cores. The order of the sums depends on the sizes, and on whether columns begin at multiples of 16
/// bytes.
///
/// In fp32 numbers are sums of three bfloat16, 24 bits in all, and long sums are sums of floats. In norm
/// results are off by less than 2^-20: as cuBLAS's of floats where terms have either sign, and up to six
/// times as much where all are positive. Otherwise they are sums of two, 16 bits in all. A product then lacks
/// that of both second terms and what third terms would have, 2^-15 of it at most; for random numbers results
/// are off by less than 2^-17. Numbers that are infinite, or above 3.39e38, make their results NaN; of
/// numbers below 1e-33 fewer bits count. Throws DeviceError if the driver knows no tensor maps.
void split_gemm(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
                MatrixView<float> c, Precision precision);

}  // namespace orthornn::cuda
