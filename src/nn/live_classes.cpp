#include "nn/live_classes.hpp"

#include "core/back_end.hpp"
#include "cuda/nn/live_classes.hpp"

namespace orthornn {

void copy_live_classes(TensorView<const std::int32_t> classes, TensorView<const std::int32_t> lengths,
                       TensorView<std::int32_t> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::copy_live_classes(classes, lengths, to);
  }
  for (Index t = 0; t < to.shape()[0]; ++t) {
    for (Index b = 0; b < to.shape()[1]; ++b)
      to(t, b) = lengths.empty() || t < lengths(b) ? classes(t, b) : -1;
  }
}

}  // namespace orthornn
