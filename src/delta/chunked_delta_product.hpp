#pragma once

#include "delta/saved_memory.hpp"

namespace orthornn {

/// delta_product in chunks of C factors (docs/math.md, section 5.3). Only the states from chunk to chunk are
/// computed one after another. It pushes what the backward reads.
template <class T>
void chunked_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results);
template <class T>
void chunked_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients);
/// The functions of saved_memory.hpp for this form.
template <class T>
SavedMemory memory_of_chunks(const DeltaWork<T>& work);
template <class T>
void push_kept_chunks(const DeltaWork<T>& work);

}  // namespace orthornn
