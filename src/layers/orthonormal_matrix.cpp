#include "layers/orthonormal_matrix.hpp"

#include "layers/copy_to_rows.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "orthornn/linalg/orthogonality.hpp"

namespace orthornn {

template <class T>
OrthonormalMatrix<T>::OrthonormalMatrix(StiefelKind kind, Index rows, Index cols, const Execution& execution)
    : point_(make_stiefel_point<T>(kind, std::max(rows, cols), std::min(rows, cols), execution)) {
  if (rows < cols) transposed_ = Tensor<T>({rows, cols}, execution.device);
}

template <class T>
void OrthonormalMatrix<T>::prepare(ConstTensorView<T> parameters) {
  point_->prepare(parameters);
  if (!transposed_.empty()) copy_transposed<T>(columns_of(point_->omega()), columns_of(transposed_));
}

template <class T>
void OrthonormalMatrix<T>::backward(ConstTensorView<T> d, TensorView<T> d_parameters, Saved& scratch) {
  if (transposed_.empty()) return point_->backward(d, d_parameters);
  const Saved::Scope scope(scratch);
  const TensorView<T> d_omega = scratch.push<T>(point_->omega().shape());
  copy_transposed<T>(columns_of(d), columns_of(d_omega));
  point_->backward(d_omega, d_parameters);
}

template <class T>
double OrthonormalMatrix<T>::orthogonality_error() const {
  return orthornn::orthogonality_error<T>(point_->omega());
}

template <class T>
void undo_affine(const Operand<T>& inverse, ConstTensorView<T> bias, TensorView<T> offset,
                 ConstTensorView<T> y, TensorView<T> x, Precision precision) {
  gemm<T>(-1, inverse, columns_of(bias), 0, columns_of(offset), precision);
  copy_to_rows<T>(offset, x);
  gemm<T>(1, inverse, columns_of(y), 1, columns_of(x), precision);
}

#define ORTHORNN_INSTANTIATE(T)                                                                          \
  template class OrthonormalMatrix<T>;                                                                   \
  template void undo_affine<T>(const Operand<T>&, ConstTensorView<T>, TensorView<T>, ConstTensorView<T>, \
                               TensorView<T>, Precision);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
