#include "cuda/core/for_each.cuh"
#include "cuda/core/set_value.hpp"

namespace orthornn::cuda {

void set_value(TensorView<std::uint64_t> to, std::uint64_t value) {
  std::uint64_t* place = to.data();
  for_each(context(to.device()), 1, [=] __device__(Index) { *place = value; });
}

}  // namespace orthornn::cuda
