#pragma once

#include "orthornn/core/precision.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// c <- alpha * a * b + beta * c. Threaded over the entries of c; sums run in the same order whatever the
/// number of threads. beta = 0 overwrites c, NaNs and all. No allocation once the largest product has been
/// seen. Sizes must fit (asserted); c must not overlap a or b. `precision` is that of float products on a
/// GPU.
template <class T>
void gemm(std::type_identity_t<T> alpha, std::type_identity_t<Operand<T>> a,
          std::type_identity_t<Operand<T>> b, std::type_identity_t<T> beta, MatrixView<T> c,
          Precision precision = Precision::fp32);

}  // namespace orthornn
