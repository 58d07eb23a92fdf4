#pragma once

#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// c <- alpha * a * b + beta * c. Threaded over the entries of c; the order of a sum does not depend on the
/// number of threads. beta = 0 overwrites c, NaNs included. No allocation after the largest product. Sizes
/// must fit (asserted); c must not overlap a or b. `precision` is that of float products on a GPU.
template <class T>
void gemm(std::type_identity_t<T> alpha, std::type_identity_t<Operand<T>> a,
          std::type_identity_t<Operand<T>> b, std::type_identity_t<T> beta, MatrixView<T> c,
          Precision precision = Precision::fp32);

}  // namespace orthornn
