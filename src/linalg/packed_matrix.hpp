#pragma once

#include "linalg/block_kernel.hpp"
#include "orthornn/core/precision.hpp"

namespace orthornn {

/// A matrix in the order in which the product kernel reads it, for a recurrence that multiplies by it T
/// times: packing costs about as much as a product with a few columns, so it is done once. On a GPU it is a
/// copy in C order, the fastest for tensor cores.
template <class T>
class PackedMatrix {
 public:
  /// Takes memory for a matrix of this size on a device, so that `pack` takes none.
  void reserve(Index rows, Index cols, Device device);
  void pack(const Operand<T>& matrix);

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  /// c += alpha * matrix * b, by the calling thread only. Splitting b at multiples of the kernel's column
  /// group does not change the bits of the result. `precision` is that of float products on a GPU.
  void multiply_add(std::type_identity_t<T> alpha, MatrixView<const T> b, MatrixView<T> c,
                    Precision precision = Precision::fp32) const;
  /// c = alpha * matrix * b.
  void multiply(std::type_identity_t<T> alpha, MatrixView<const T> b, MatrixView<T> c,
                Precision precision = Precision::fp32) const;

 private:
  MatrixView<const T> copied() const { return {packed_.data(), cols_, rows_, cols_, packed_.device()}; }

  Index rows_ = 0;
  Index cols_ = 0;
  block_kernel::Blocking blocking_{};
  Tensor<T> packed_;
};

extern template class PackedMatrix<float>;
extern template class PackedMatrix<double>;

}  // namespace orthornn
