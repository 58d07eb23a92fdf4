#include "cuda/core/for_each_entry.cuh"
#include "cuda/nn/live_classes.hpp"

namespace orthornn::cuda {

void copy_live_classes(TensorView<const std::int32_t> classes, TensorView<const std::int32_t> lengths,
                       TensorView<std::int32_t> to) {
  const Index batch = to.shape()[1];
  const std::int32_t* from = classes.data();
  const std::int32_t* live = lengths.empty() ? nullptr : lengths.data();
  std::int32_t* result = to.data();
  for_each_entry(context(to.device()), batch, to.shape()[0], [=] __device__(Index b, Index t) {
    result[t * batch + b] = live == nullptr || t < live[b] ? from[t * batch + b] : -1;
  });
}

}  // namespace orthornn::cuda
