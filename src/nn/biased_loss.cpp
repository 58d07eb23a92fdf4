#include "nn/biased_loss.hpp"

#include <cassert>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/nn/loss.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn {

template <class T, class G>
void biased_cross_entropy(MatrixView<T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value,
                          MatrixView<G> gradient, double smoothing) {
  const Index rows = classes.size(), class_count = bias.size();
  assert(outputs.cols == rows && outputs.rows == class_count);
  if constexpr (has_cuda_bodies) {
    if (outputs.device.is_cuda())
      return cuda::biased_cross_entropy<T, G>(outputs, bias, classes, value, gradient, smoothing);
  }
  const void* const place = gradient.data;
  assert(place == nullptr || place == outputs.data);
  assert(outputs.stride == class_count);
  parallel_for(rows, 1, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      T* const y = outputs.column(row);
      for (Index c = 0; c < class_count; ++c) y[c] += bias.data()[c];
    }
  });
  softmax_cross_entropy<T>(TensorView<T>(outputs.data, {rows, class_count}), classes, {}, value,
                           place != nullptr, smoothing);
}

#define ORTHORNN_INSTANTIATE(T, G)                                                             \
  template void biased_cross_entropy<T, G>(MatrixView<T>, TensorView<const T>,                 \
                                           TensorView<const std::int32_t>, TensorView<double>, \
                                           MatrixView<G>, double);
ORTHORNN_INSTANTIATE(float, float)
ORTHORNN_INSTANTIATE(float, bfloat16)
ORTHORNN_INSTANTIATE(double, double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
