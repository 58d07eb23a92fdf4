#include <limits>

#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/positions.hpp"

namespace orthornn::cuda {
namespace {

/// The live steps of a batch, and the step at which each sequence begins.
template <class T>
struct Steps {
  const std::int32_t* lengths;
  const T* before;
  Index length;

  __device__ Index live(Index b) const { return lengths == nullptr ? length : lengths[b]; }
  /// Or -1, where the state counts nothing.
  __device__ Index first(Index b, Index most) const {
    const T steps = before[b];
    const bool counts = steps >= T{0} && steps <= static_cast<T>(most) && steps == floor(steps);
    return counts ? static_cast<Index>(steps) : -1;
  }
};

}  // namespace

template <class T>
void add_positions(TensorView<const T> x, TensorView<const T> vectors, TensorView<const std::int32_t> lengths,
                   TensorView<const T> before, TensorView<T> y) {
  const Context& gpu = context(y.device());
  const Index batch = x.shape()[1], size = x.shape()[2], count = vectors.shape()[0];
  const Steps<T> steps{lengths.data(), before.data(), x.shape()[0]};
  const T* from = x.data();
  const T* v = vectors.data();
  T* to = y.data();
  FaultWord* faults = gpu.faults();
  for_each_entry(gpu, size, x.shape()[0] * batch, [=] __device__(Index n, Index column) {
    const Index t = column / batch, b = column % batch, live = steps.live(b);
    const Index first = steps.first(b, count);
    if (t == 0 && n == 0 && (first < 0 || first + live > count))
      report_fault(faults, Fault::step_without_position, b);
    T position = 0;
    if (t < live) {
      const bool known = first >= 0 && first + t < count;
      position = known ? v[(first + t) * size + n] : std::numeric_limits<T>::quiet_NaN();
    }
    to[column * size + n] = from[column * size + n] + position;
  });
}

template <class T>
void sum_positions(TensorView<const T> d_y, TensorView<const std::int32_t> lengths,
                   TensorView<const T> before, TensorView<T> gradient, bool adds) {
  const Index batch = d_y.shape()[1], size = d_y.shape()[2], count = gradient.shape()[0];
  const Steps<T> steps{lengths.data(), before.data(), d_y.shape()[0]};
  const T* from = d_y.data();
  T* to = gradient.data();
  for_each_entry(context(d_y.device()), size, count, [=] __device__(Index n, Index step) {
    double sum = 0;
    for (Index b = 0; b < batch; ++b) {
      const Index first = steps.first(b, count), t = step - first;
      if (first >= 0 && t >= 0 && t < steps.live(b))
        sum += static_cast<double>(from[(t * batch + b) * size + n]);
    }
    T& entry = to[step * size + n];
    entry = static_cast<T>(adds ? static_cast<double>(entry) + sum : sum);
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                            \
  template void add_positions<T>(TensorView<const T>, TensorView<const T>, TensorView<const std::int32_t>, \
                                 TensorView<const T>, TensorView<T>);                                      \
  template void sum_positions<T>(TensorView<const T>, TensorView<const std::int32_t>, TensorView<const T>, \
                                 TensorView<T>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
