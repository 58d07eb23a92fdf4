#include "cuda/core/for_each_entry.cuh"
#include "cuda/layers/step_order.hpp"

namespace orthornn::cuda {

template <class U>
void copy_steps(MatrixView<const U> from, MatrixView<U> to, Index batch,
                TensorView<const std::int32_t> lengths, bool reversed, bool adds) {
  const Index length = to.cols / batch;
  const std::int32_t* live_of = lengths.empty() ? nullptr : lengths.data();
  for_each_entry(context(to.device), to.rows, to.cols, [=] __device__(Index row, Index column) {
    Index source = column;
    if (reversed) {
      const Index t = column / batch, b = column - t * batch;
      // A length above T is a fault that is reported elsewhere; nothing outside the sequence is read.
      const Index live = live_of == nullptr || live_of[b] > length ? length : Index{live_of[b]};
      if (t < live) source = (live - 1 - t) * batch + b;
    }
    const U x = from.data[source * from.stride + row];
    U& y = to.data[column * to.stride + row];
    y = adds ? y + x : x;
  });
}

#define ORTHORNN_INSTANTIATE(U)                                                                          \
  template void copy_steps<U>(MatrixView<const U>, MatrixView<U>, Index, TensorView<const std::int32_t>, \
                              bool, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
ORTHORNN_INSTANTIATE(std::int32_t)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
