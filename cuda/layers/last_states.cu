#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/last_states.hpp"

namespace orthornn::cuda {

template <class T>
void add_where_empty(TensorView<const std::int32_t> lengths, TensorView<const T> from, TensorView<T> to) {
  const std::int32_t* live = lengths.data();
  const T* source = from.data();
  T* target = to.data();
  const Index size = to.shape()[1];
  for_each_entry(context(to.device()), size, to.shape()[0], [=] __device__(Index n, Index b) {
    if (live[b] == 0) target[b * size + n] += source[b * size + n];
  });
}

template void add_where_empty<float>(TensorView<const std::int32_t>, TensorView<const float>,
                                     TensorView<float>);
template void add_where_empty<double>(TensorView<const std::int32_t>, TensorView<const double>,
                                      TensorView<double>);

}  // namespace orthornn::cuda
