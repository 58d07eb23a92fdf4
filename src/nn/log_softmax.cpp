#include "nn/log_softmax.hpp"

#include <algorithm>
#include <cmath>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/nn/log_softmax.hpp"

namespace orthornn {

template <class T>
void log_softmax(TensorView<T> y) {
  if constexpr (has_cuda_bodies) {
    if (y.device().is_cuda()) return cuda::log_softmax<T>(y);
  }
  parallel_for(y.shape()[0], 1, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const TensorView<T> logits = y[row];
      const T largest = *std::ranges::max_element(logits);
      double total = 0;
      for (const T x : logits) total += static_cast<double>(std::exp(x - largest));
      const T normalizer = static_cast<T>(std::log(total));
      for (T& x : logits) x = x - largest - normalizer;
    }
  });
}

template void log_softmax<float>(TensorView<float>);
template void log_softmax<double>(TensorView<double>);

}  // namespace orthornn
