#pragma once

#include "cuda/delta/delta_work.hpp"

namespace orthornn {

/// The recurrence of delta_product, one factor after another. A forward pushes the states between segments,
/// and the backward computes those within a segment again.
template <class T>
void recurrent_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);

}  // namespace orthornn
