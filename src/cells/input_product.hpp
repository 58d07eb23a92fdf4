#pragma once

#include "linalg/packed_matrix.hpp"
#include "orthornn/cells/orthogonal_cell.hpp"

namespace orthornn {

/// What of a recurrence no step waits for: W x_t + b for all steps before the loop, and what follows from the
/// gradients g_t after it. W [N, K] is kept in the orders in which the two kinds of input read it.
template <class T>
class InputProduct {
 public:
  InputProduct(Index hidden_size, Index input_size, const Execution& execution);

  /// W has changed.
  void forget() { is_packed_ = has_columns_ = false; }
  /// a [T, B, N] <- W x + b. On a GPU a symbol outside 0 .. K - 1 is a fault, on the CPU nobody looks.
  void forward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> bias,
               TensorView<T> a);

  /// Where `backward` puts gradients, all overwritten.
  struct Gradients {
    TensorView<T> weights;       ///< [N, K]
    TensorView<T> bias;          ///< [N]
    TensorView<T> modrelu_bias;  ///< [N], or empty
    TensorView<T> input;         ///< [T, B, K], or empty
  };
  /// dW = G X^T, db = G 1, dm = sum of sign(h) * g, dX = W^T G, with G and H over all steps and sequences; g
  /// and h [T, B, N].
  void backward(const SequenceInput<T>& input, ConstTensorView<T> weights, ConstTensorView<T> g,
                ConstTensorView<T> h, const Gradients& gradients);

 private:
  void prepare(bool symbols, ConstTensorView<T> weights);
  void sum_gradients(const SequenceInput<T>& input, ConstTensorView<T> g, ConstTensorView<T> h,
                     const Gradients& gradients);

  Index hidden_size_;
  Index input_size_;
  Execution execution_;
  PackedMatrix<T> packed_;  // for real inputs
  bool is_packed_ = false;
  Tensor<T> columns_;  // [K, N], for symbols
  bool has_columns_ = false;
  Tensor<double> d_columns_;  // [K, N]
  Tensor<double> sums_;       // [2, N]: of the bias and of the modrelu bias
};

}  // namespace orthornn
