#include <limits>

#include "cuda/cells/for_each_entry.cuh"
#include "cuda/nn/model_input.hpp"

namespace orthornn::cuda {

template <class T>
void copy_features(TensorView<const float> features, TensorView<const std::int32_t> lengths,
                   TensorView<T> x) {
  const Index batch = x.shape()[1];
  const Index size = x.shape()[2];
  const float* from = features.data();
  // As on the CPU, whoever checks the shape of the lengths comes later.
  const std::int32_t* live = lengths.size() == batch ? lengths.data() : nullptr;
  T* to = x.data();
  for_each_entry(context(x.device()), batch * size, x.shape()[0], [=] __device__(Index row, Index t) {
    const Index i = t * batch * size + row;
    const bool padding = live != nullptr && t >= live[row / size];
    to[i] = padding ? T{0} : static_cast<T>(from[i]);
  });
}

template <class T>
void embed(TensorView<const T> vectors, TensorView<const std::int32_t> symbols, TensorView<T> x) {
  const Context& gpu = context(x.device());
  const Index tokens = vectors.shape()[0];
  const Index size = vectors.shape()[1];
  const T* v = vectors.data();
  const std::int32_t* token_at = symbols.data();
  T* to = x.data();
  FaultWord* faults = gpu.faults();
  for_each_entry(gpu, size, symbols.size(), [=] __device__(Index row, Index column) {
    const Index token = token_at[column];
    const bool known = token >= 0 && token < tokens;
    if (!known && row == 0) report_fault(faults, Fault::token_out_of_range, column);
    to[column * size + row] = known ? v[token * size + row] : std::numeric_limits<T>::quiet_NaN();
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                           \
  template void copy_features<T>(TensorView<const float>, TensorView<const std::int32_t>, TensorView<T>); \
  template void embed<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<T>);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
