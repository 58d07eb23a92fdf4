#pragma once

#include "linalg/packed_matrix.hpp"
#include "orthornn/core/execution.hpp"
#include "orthornn/layers/layer.hpp"

namespace orthornn {

/// y = W x + b for all steps at once: what no step of a recurrence waits for, and what a linear layer is. W
/// [N, K] is kept in the orders in which the two kinds of input read it.
template <class T>
class AffineMap {
 public:
  AffineMap(Index input_size, Index output_size, const Execution& execution)
      : input_size_(input_size), output_size_(output_size), execution_(execution) {}

  /// W has changed.
  void forget() { is_packed_ = has_columns_ = false; }
  /// y [T, B, N] <- W x + b. Of vectors b may be empty, for none. On a GPU a symbol outside 0 .. K - 1 is a
  /// fault; on the CPU symbols must have been checked.
  void forward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> bias,
               TensorView<T> y, Saved& scratch) const;

  /// Arranges W for `forward_columns`, on the CPU.
  void arrange(const SequenceInput<T>& input, ConstTensorView<T> weights) const;
  /// The sequences first .. last - 1 of a step of `forward`, on the CPU by the calling thread, after
  /// `arrange`. They have the bits of `forward` where first and last are multiples of 16, or last is B.
  void forward_columns(const SequenceInput<T>& input, ConstTensorView<T> bias, TensorView<T> y, Index step,
                       Index first, Index last) const;

  /// Where `backward` puts gradients.
  struct To {
    TensorView<T> weights;            ///< [N, K], overwritten
    TensorView<T> bias = {};          ///< [N], overwritten; empty for a map of vectors without b
    TensorView<T> signed_bias = {};   ///< [N], overwritten, or empty: sum of sign(h) * g, that of modrelu's m
    TensorView<const T> states = {};  ///< h [T, B, N] for signed_bias, where g is 0 wherever h is
    TensorView<T> input = {};         ///< [T, B, K], or empty
    Gradients mode = Gradients::overwrite;  ///< of `input`
  };
  /// dW = G X^T, db = G 1, dX = W^T G for g [T, B, N].
  void backward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> g, const To& to,
                Saved& scratch) const;

 private:
  bool has_few_outputs(const SequenceInput<T>& input) const;

  Index input_size_;
  Index output_size_;
  Execution execution_;
  // W on the CPU, from the first forward after a change on.
  mutable PackedMatrix<T> packed_;  // for vectors
  mutable bool is_packed_ = false;
  mutable Tensor<T> columns_;  // [K, N], for symbols
  mutable bool has_columns_ = false;
};

extern template class AffineMap<float>;
extern template class AffineMap<double>;

}  // namespace orthornn
