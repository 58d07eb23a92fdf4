#pragma once

#include <algorithm>
#include <memory>

#include "orthornn/core/saved.hpp"
#include "orthornn/linalg/matrix_view.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"

namespace orthornn {

/// A matrix M [R, C] with orthonormal columns, or for R < C with orthonormal rows: a point of St(R, C), or
/// the transpose of one of St(C, R). So |M x| <= |x| and |M^T x| <= |x|.
template <class T>
class OrthonormalMatrix {
 public:
  OrthonormalMatrix(StiefelKind kind, Index rows, Index cols, const Execution& execution);
  static Parameter parameter(StiefelKind kind, Index rows, Index cols) {
    return stiefel_parameter(kind, std::max(rows, cols), std::min(rows, cols));
  }

  // The next three do what those of StiefelPoint do.
  void initialize(std::uint64_t seed, TensorView<T> parameters) const {
    point_->initialize(seed, parameters);
  }
  void prepare(ConstTensorView<T> parameters);
  bool recordable() const { return point_->recordable(); }
  /// M [R, C], until the next `prepare`.
  TensorView<const T> view() const { return transposed_.empty() ? point_->omega() : transposed_.view(); }
  /// d_parameters <- their gradient from d [R, C].
  void backward(ConstTensorView<T> d, TensorView<T> d_parameters, Saved& scratch);
  double orthogonality_error() const;

 private:
  std::unique_ptr<StiefelPoint<T>> point_;
  Tensor<T> transposed_;  // [R, C] for R < C
};

/// x <- A (y - c) for the columns of y, where A [N, N] is the inverse of a map's matrix, and c [N] its bias.
/// `offset` [N] is scratch.
template <class T>
void undo_affine(const Operand<T>& inverse, ConstTensorView<T> bias, TensorView<T> offset,
                 ConstTensorView<T> y, TensorView<T> x, Precision precision);

extern template class OrthonormalMatrix<float>;
extern template class OrthonormalMatrix<double>;

}  // namespace orthornn
