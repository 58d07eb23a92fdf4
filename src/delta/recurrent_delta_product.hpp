#pragma once

#include "delta/saved_memory.hpp"

namespace orthornn {

/// The recurrence of delta_product, one factor after another. A forward pushes the states between segments,
/// and the backward computes those within a segment again.
template <class T>
void recurrent_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);
/// The functions of saved_memory.hpp for this form.
template <class T>
SavedMemory memory_of_recurrence(const DeltaWork<T>& work);
template <class T>
void push_kept_states(const DeltaWork<T>& work);

}  // namespace orthornn
