#pragma once

#include <algorithm>

#include "orthornn/core/tensor.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// The sequences first .. last - 1 of a batch, which one thread carries through all steps.
class SequenceColumns {
 public:
  SequenceColumns(TensorView<const std::int32_t> lengths, Index length, Index first, Index last)
      : lengths_(lengths), length_(length), first_(first), count_(last - first) {}

  Index count() const { return count_; }
  /// Live steps of the thread's sequence j.
  Index live_steps(Index j) const { return lengths_.empty() ? length_ : Index{lengths_(first_ + j)}; }
  /// Their columns of a tensor [B, ..].
  template <class View>
  auto of(View tensor) const {
    return columns_of(tensor).columns(first_, count_);
  }

 private:
  TensorView<const std::int32_t> lengths_;
  Index length_, first_, count_;
};

/// to += from, columns of `rows` numbers.
template <class T>
void add_column(const T* from, T* to, Index rows) {
  for (Index i = 0; i < rows; ++i) to[i] += from[i];
}

template <class T>
void zero_column(MatrixView<T> matrix, Index j) {
  std::fill(matrix.column(j), matrix.column(j) + matrix.rows, T{0});
}

}  // namespace orthornn
