#include "products/coefficient_gradient.hpp"

#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {

template <class T>
Factors<T> CoefficientGradient<T>::of(TensorView<const T> units, MatrixView<const T> g, MatrixView<const T> h,
                                      MatrixView<const T> z, MatrixView<const T> y, Precision precision) {
  coefficient_product_.reserve({z.rows, z.rows});
  d_units_.reserve(units.shape());
  const auto m = columns_of(coefficient_product_);
  gemm<T>(1, y, transposed(z), 0, m, precision);
  symmetrize_strict_upper(m);
  const auto du = columns_of(d_units_);
  gemm<T>(-1, g, transposed(z), 0, du, precision);
  gemm<T>(-1, h, transposed(y), 1, du, precision);
  gemm<T>(1, columns_of(units), m, 1, du);
  return {.units = d_units_};
}

template class CoefficientGradient<float>;
template class CoefficientGradient<double>;

}  // namespace orthornn
