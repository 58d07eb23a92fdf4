#include "cuda/core/for_each.cuh"
#include "cuda/layers/dropout.hpp"

namespace orthornn::cuda {

template <class T>
void drop(const DropoutMask& mask, TensorView<const std::uint64_t> key, TensorView<const T> from,
          TensorView<T> to, bool adds) {
  constexpr Index group = DropoutMask::group;
  const Index count = from.size();
  const std::uint64_t* key_at = key.data();
  const T* x = from.data();
  T* y = to.data();
  const T scale = static_cast<T>(mask.scale);
  const DropoutMask m = mask;
  // A thread takes the numbers of one block of Philox.
  for_each(context(from.device()), (count + group - 1) / group, [=] __device__(Index i) {
    const auto keeps = m.keeps(*key_at, i);
    for (Index k = 0; k < group && i * group + k < count; ++k) {
      const Index at = i * group + k;
      const T kept = keeps[k] ? x[at] * scale : T{0};
      y[at] = adds ? y[at] + kept : kept;
    }
  });
}

#define ORTHORNN_INSTANTIATE(T)                                                                   \
  template void drop<T>(const DropoutMask&, TensorView<const std::uint64_t>, TensorView<const T>, \
                        TensorView<T>, bool);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
