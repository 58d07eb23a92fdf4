#pragma once

#include "core/thread_scratch.hpp"
#include "orthornn/linalg/matrix_view.hpp"

namespace orthornn {

/// A thread's memory for the matrices of one chunk, handed out one after another. One slab at a time.
template <class T>
class Slab {
 public:
  explicit Slab(Index count) : next_(thread_scratch<T, Slab>(count)) {}
  MatrixView<T> matrix(Index rows, Index cols) {
    T* const data = next_;
    next_ += rows * cols;
    return {data, rows, cols, rows};
  }

 private:
  T* next_;
};

/// The first rows and columns of matrix i of a tensor [.., cols, rows] in C order.
template <class T>
MatrixView<T> matrix_of(TensorView<T> tensor, Index i, Index rows, Index cols) {
  const Index size = tensor.shape()[-1] * tensor.shape()[-2];
  return {tensor.data() + i * size, rows, cols, tensor.shape()[-1]};
}

}  // namespace orthornn
