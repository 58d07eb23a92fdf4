#include "layers/step_order.hpp"

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/layers/step_order.hpp"
#include "layers/live_steps.hpp"

namespace orthornn {

template <class U>
void copy_steps(MatrixView<const std::type_identity_t<U>> from, MatrixView<U> to, const StepOrder& order,
                bool adds) {
  if constexpr (has_cuda_bodies) {
    if (to.device.is_cuda())
      return cuda::copy_steps<U>(from, to, order.batch, order.lengths, order.reversed, adds);
  }
  const Index length = to.cols / order.batch;
  parallel_for(to.cols, 16, [&](Index first, Index last) {
    for (Index j = first; j < last; ++j) {
      const Index t = j / order.batch, b = j % order.batch;
      const Index live = live_steps(order.lengths, length, b);
      const Index source = order.reversed && t < live ? (live - 1 - t) * order.batch + b : j;
      const U* x = from.column(source);
      U* y = to.column(j);
      for (Index n = 0; n < to.rows; ++n) y[n] = adds ? y[n] + x[n] : x[n];
    }
  });
}

#define ORTHORNN_INSTANTIATE(U) \
  template void copy_steps<U>(MatrixView<const U>, MatrixView<U>, const StepOrder&, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
ORTHORNN_INSTANTIATE(std::int32_t)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn
