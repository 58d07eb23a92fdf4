#pragma once

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/delta_product.hpp"

namespace orthornn {

/// A delta product that has been checked, as all bodies take it. It refers to what a caller gave.
template <class T>
struct DeltaWork {
  const DeltaProductInput<T>& input;
  const TokenLayout& layout;
  const DeltaProductOptions& options;
  /// Where a forward leaves what its backward reads and pops.
  Saved& saved;
  DeltaSizes sizes = input.sizes();
};

/// Bytes that an operation pushes on a stack, each tensor with the gap behind it.
struct SavedMemory {
  std::size_t kept,  ///< What a forward leaves for its backward.
      keeping,       ///< What that forward pushes beside it, and pops.
      forward,       ///< What a forward pushes without a backward.
      backward;      ///< What a backward pushes beside what the forward left.
};

/// What a forward writes.
template <class T>
struct DeltaResults {
  TensorView<T> outputs;
  /// May be empty.
  TensorView<DeltaNumber<T>> final_states;
  /// Whether a backward follows.
  bool keep;
};

}  // namespace orthornn
