#pragma once
// Matrices of chunks, and of the states from chunk to chunk.

#include <algorithm>
#include <cstdint>

#include "core/thread_scratch.hpp"
#include "delta/sequence_parts.hpp"
#include "linalg/block_kernel.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/inverse.hpp"
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

/// Some values of state i of a tensor [.., H, K, V], as the rows of a matrix of K columns.
template <class T>
MatrixView<T> values_of_state(TensorView<T> states, Index i, const ValueRange& values) {
  const Shape& shape = states.shape();
  return matrix_of(states, i * shape[1] + values.head, shape[3], shape[2])
      .block(values.first, 0, values.count, shape[2]);
}

/// Sets the rows from `first` + c on of each column c to 0.
template <class T>
void clear_rows_from(MatrixView<T> m, Index first) {
  for (Index c = 0; c < m.cols; ++c) std::fill(m.column(c) + first + c, m.column(c) + m.rows, T{0});
}

/// Inverts the matrix that has what is above the diagonal of m, and 1 on it.
template <class T>
void invert_unit_upper(MatrixView<T> m) {
  clear_rows_from(m, 0);
  for (Index r = 0; r < m.cols; ++r) m(r, r) = 1;
  invert_upper_triangular(m);
}

/// The states that a sweep over the chunks of a sequence comes to and leaves, or their gradients.
template <class T>
struct SweptStates {
  /// With which it comes to each chunk, [chunks, H, K, V].
  TensorView<T> of_chunks;
  /// With which it begins, [B, H, K, V]; empty for zeros.
  TensorView<const T> start;
  /// What it ends with, [B, H, K, V]; empty where that is not wanted. They may be those of `start`.
  TensorView<T> finish;
};

enum class SweepDirection : std::uint8_t { forward, backward };

/// Calls body(chunk, values, state, next) for all chunks, those of a sequence one after another: `state` is
/// that with which the sweep comes to the chunk, and the body makes `next` of it, unless `next` has no data.
/// Both are as those of `values_of_state`. States of different heads and values are swept on all threads.
template <class T, class Body>
void sweep_chunks(const SequenceParts& chunks, Index sequences, const SweptStates<T>& states,
                  SweepDirection direction, const Body& body) {
  const Shape& shape = states.of_chunks.shape();
  for_each_state(
      sequences, shape[1], shape[3], block_kernel::row_group<T>, [&](Index b, const ValueRange& values) {
        const Index begin = chunks.begin(b), count = chunks.end(b) - begin;
        const auto chunk_at = [&](Index i) {
          return begin + (direction == SweepDirection::forward ? i : count - 1 - i);
        };
        const auto state_at = [&](Index i) {
          if (i < count) return values_of_state(states.of_chunks, chunk_at(i), values);
          return states.finish.empty() ? MatrixView<T>() : values_of_state(states.finish, b, values);
        };
        if (const MatrixView<T> first = state_at(0); first.data != nullptr) {
          if (states.start.empty()) {
            eigen(first).setZero();
          } else {
            eigen(first) = eigen(values_of_state(states.start, b, values));
          }
        }
        for (Index i = 0; i < count; ++i) body(chunk_at(i), values, state_at(i), state_at(i + 1));
      });
}

}  // namespace orthornn
