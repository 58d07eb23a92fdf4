#pragma once

#include "linalg/packed_matrix.hpp"
#include "orthornn/core/execution.hpp"

namespace orthornn {

/// R [M, N], by which a gated recurrence multiplies its state at every step, in the orders in which forward
/// and backward read it.
template <class T>
class RecurrentWeights {
 public:
  /// Threads take columns in multiples of the product kernel's column group, so that results do not depend on
  /// the number of threads.
  static constexpr Index column_grain = 16;

  explicit RecurrentWeights(const Execution& execution) : precision_(execution.precision) {}

  void prepare(ConstTensorView<T> weights) {
    // R [M, N] is R^T in the column-major view.
    forward_.pack(transposed(columns_of(weights)));
    backward_.pack(columns_of(weights));
  }
  /// a += R h. By the calling thread alone.
  void multiply_add(MatrixView<const T> h, MatrixView<T> a) const {
    forward_.multiply_add(1, h, a, precision_);
  }
  /// d += R^T g.
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d) const {
    backward_.multiply_add(1, g, d, precision_);
  }

 private:
  Precision precision_;
  PackedMatrix<T> forward_, backward_;
};

}  // namespace orthornn
