#pragma once

#include <cstdint>
#include <vector>

#include "nn/exact_weights.hpp"
#include "orthornn/core/tensor.hpp"
#include "orthornn/tasks/group_words.hpp"

namespace orthornn {

/// What a head adds to its state at most; small, where SiLU is nearly linear.
inline constexpr double exact_value_size = 1.0 / 16;

/// How much larger the score of the right class is than that of any other.
inline constexpr double exact_score_gap = 40;

/// One layer. Features: the symbol, and a matrix A(y) [d, d].
class OneLayerPlan {
 public:
  explicit OneLayerPlan(const GroupWords& words);

  /// With the smallest sizes.
  DeltaProductCell cell() const;
  template <class T>
  void write(ExactWeights<T>& weights) const;

 private:
  Index symbols() const { return std::ssize(reflections_); }
  Index size() const { return matrices_.shape()[1]; }
  Index matrix(Index row, Index column) const { return symbols() + row * size() + column; }

  /// Of all elements.
  Tensor<double> matrices_;
  /// Of each symbol, unit vectors in the order in which they act.
  std::vector<std::vector<std::vector<double>>> reflections_;
};

/// The places of the features of three layers: the symbol, a one, whether the step is the first of a block of
/// two or the second, matrices of permutations [n, n], and the product of the last block with the place in
/// the block.
struct ThreeLayerFeatures {
  enum Place : Index { first, second };
  /// What is kept as a matrix: the symbol before, the product of the block as far as it is read, the product
  /// of the block before, what is read from the state, and the answer.
  enum Matrix : Index { before, block, last_block, read, answer, matrix_count };

  Index symbols, points;

  Index one() const { return symbols; }
  Index place(Index p) const { return symbols + 1 + p; }
  Index matrix(Matrix which, Index row, Index column) const {
    return symbols + 3 + (which * points + row) * points + column;
  }
  /// Of a product of the plan.
  Index factor(Index product, Index p) const { return matrix(matrix_count, 0, 0) + 2 * product + p; }
  /// So many features are 1 besides some matrices.
  double ones(Index matrices, bool with_factor = false) const {
    return static_cast<double>(3 + with_factor + matrices * points);
  }
};

/// Three layers.
class ThreeLayerPlan {
 public:
  explicit ThreeLayerPlan(const GroupWords& words);

  DeltaProductCell cell() const;
  GatedMlp mlp() const;
  template <class T>
  void write(ExactWeights<T>& weights) const;

 private:
  using Permutation = std::vector<std::int32_t>;

  ThreeLayerFeatures features_;
  /// A half of the swaps of any product of two symbols.
  Index swaps_ = 2;
  /// Of the symbols, of their products and the identity, and of all elements.
  std::vector<Permutation> symbols_, products_, elements_;
};

}  // namespace orthornn
