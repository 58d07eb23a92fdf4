#pragma once
// How a delta product is computed. All of it is decided here.

#include "cuda/delta/delta_work.hpp"
#include "orthornn/core/execution.hpp"

namespace orthornn {

/// Bodies of a delta product. On a GPU small states are a recurrence of their own.
enum class DeltaBody { recurrent, small_states, chunked };

/// The body of the form that the options of a delta product ask for.
template <class T>
DeltaBody body_of(const DeltaWork<T>& work);

/// How a layer computes its delta product.
struct DeltaPlan {
  DeltaForm form;
  /// Of products.
  Precision precision;
  /// Whether queries, keys, values and outputs are bfloat16; else they are of the layer's type.
  bool rounds_vectors;
};

/// What a plan depends on: T steps of B sequences.
struct DeltaProblem {
  DeltaSizes sizes;
  /// Whether nothing but values and factors I - beta k k^T with keys as they are given changes a state.
  bool plain;
  /// Whether removals or decays for each row of a state need the recurrent form.
  bool recurrent;
  Index length, batch;
};

/// The plan that is fastest for numbers of T. Vectors of bfloat16 have the chunked form alone.
template <class T>
DeltaPlan plan_delta_product(const DeltaProblem& problem, const Execution& execution);

}  // namespace orthornn
