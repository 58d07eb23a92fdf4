#include "orthornn/core/convert.hpp"

#include <algorithm>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/core/convert.hpp"

namespace orthornn {
namespace {

// 64 KiB of floats a thread at least.
constexpr Index grain = 1 << 14;

template <class From, class To>
void convert_all(TensorView<const From> from, TensorView<To> to) {
  check_shape("converted tensor", from.shape(), to.shape());
  if (from.device() != to.device()) {
    throw DeviceError("a tensor on " + to_string(from.device()) + " was to be converted to one on " +
                      to_string(to.device()) + "; copy it there first");
  }
  if constexpr (has_cuda_bodies) {
    if (to.device().is_cuda()) return cuda::convert(from, to);
  }
  parallel_for(from.size(), grain, [&](Index first, Index last) {
    std::transform(from.data() + first, from.data() + last, to.data() + first,
                   [](From number) { return static_cast<To>(number); });
  });
}

}  // namespace

void convert(ConstTensorView<float> from, TensorView<bfloat16> to) { convert_all<float>(from, to); }

void convert(ConstTensorView<bfloat16> from, TensorView<float> to) { convert_all<bfloat16>(from, to); }

}  // namespace orthornn
