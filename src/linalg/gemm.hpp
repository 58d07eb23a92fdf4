#pragma once

#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/scalar/bfloat16.hpp"

namespace orthornn {

/// c <- alpha * a * b + beta * c. Threaded over the entries of c; the order of a sum does not depend on the
/// number of threads. beta = 0 overwrites c, NaNs included. No allocation after the largest product. Sizes
/// must fit (asserted); c must not overlap a or b. `precision` is that of float products on a GPU.
template <class T>
void gemm(std::type_identity_t<T> alpha, std::type_identity_t<Operand<T>> a,
          std::type_identity_t<Operand<T>> b, std::type_identity_t<T> beta, MatrixView<T> c,
          Precision precision = Precision::fp32);

/// c <- a b + beta c of numbers with 8-bit significands, summed in float. On a GPU alone (asserted).
void gemm(const Operand<bfloat16>& a, const Operand<bfloat16>& b, float beta, MatrixView<float> c);

}  // namespace orthornn
