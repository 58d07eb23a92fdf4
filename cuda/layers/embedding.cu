#include <limits>

#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/embedding.hpp"

namespace orthornn::cuda {

template <class T>
void embed(TensorView<const T> vectors, TensorView<const std::int32_t> symbols, TensorView<T> y) {
  const Context& gpu = context(y.device());
  const Index count = vectors.shape()[0];
  const Index size = vectors.shape()[1];
  const T* v = vectors.data();
  const std::int32_t* symbol_at = symbols.data();
  T* to = y.data();
  FaultWord* faults = gpu.faults();
  for_each_entry(gpu, size, symbols.size(), [=] __device__(Index row, Index column) {
    const Index symbol = symbol_at[column];
    const bool known = symbol >= 0 && symbol < count;
    if (!known && row == 0) report_fault(faults, Fault::token_out_of_range, column);
    to[column * size + row] = known ? v[symbol * size + row] : std::numeric_limits<T>::quiet_NaN();
  });
}

#define ORTHORNN_INSTANTIATE(T) \
  template void embed<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
