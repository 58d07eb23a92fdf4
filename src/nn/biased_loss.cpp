#include "nn/biased_loss.hpp"

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/nn/loss.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/nn/loss.hpp"

namespace orthornn {

template <class T>
void biased_cross_entropy(TensorView<T> outputs, TensorView<const T> bias,
                          TensorView<const std::int32_t> classes, TensorView<double> value, bool gradient,
                          double smoothing) {
  const Index rows = classes.size(), class_count = bias.size();
  check_shape("outputs", outputs.shape(), {rows, class_count});
  if constexpr (has_cuda_bodies) {
    if (outputs.device().is_cuda()) {
      return cuda::softmax_cross_entropy<T>(outputs, classes, {}, value, gradient, smoothing, bias);
    }
  }
  parallel_for(rows, 1, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      T* const y = outputs[row].data();
      for (Index c = 0; c < class_count; ++c) y[c] += bias.data()[c];
    }
  });
  softmax_cross_entropy<T>(outputs, classes, {}, value, gradient, smoothing);
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void biased_cross_entropy<T>(TensorView<T>, TensorView<const T>, TensorView<const std::int32_t>, \
                                        TensorView<double>, bool, double);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
