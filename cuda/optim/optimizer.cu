#include <algorithm>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/optim/optimizer.hpp"
#include "orthornn/scalar/update_rules.hpp"

namespace orthornn::cuda {

namespace {

template <class T, class Rule, class... Moments>
__global__ void update_kernel(Index count, const std::uint8_t* is_orthogonal, const double* gradient_scale,
                              const std::int64_t* halted, Rule ordinary, Rule orthogonal, T* values,
                              const T* gradients, Moments*... moments) {
  if (halted != nullptr && *halted != 0) return;
  const T scale = gradient_scale != nullptr ? static_cast<T>(*gradient_scale) : T{1};
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = grid_thread(); i < count; i += stride) {
    const Rule rule = is_orthogonal[i] ? orthogonal : ordinary;
    rule(values[i], scale * gradients[i], moments[i]...);
  }
}

}  // namespace

template <class T, class Rule, class... Moments>
void update(TensorView<const std::uint8_t> is_orthogonal, TensorView<const double> gradient_scale,
            TensorView<const std::int64_t> halted, const Rule& ordinary, const Rule& orthogonal, T* values,
            const T* gradients, Moments*... moments) {
  constexpr unsigned threads = 256;
  constexpr Index max_blocks = 1024;
  const Index count = is_orthogonal.size();
  if (count == 0) return;
  launch(context(is_orthogonal.device()), update_kernel<T, Rule, Moments...>,
         {.grid = static_cast<unsigned>(std::min<Index>(max_blocks, blocks_for(count, threads))),
          .block = threads},
         count, is_orthogonal.data(), gradient_scale.data(), halted.data(), ordinary, orthogonal, values,
         gradients, moments...);
}

#define ORTHORNN_INSTANTIATE(T)                                                                             \
  template void update<T>(TensorView<const std::uint8_t>, TensorView<const double>,                         \
                          TensorView<const std::int64_t>, const SgdRule<T>&, const SgdRule<T>&, T*,         \
                          const T*);                                                                        \
  template void update<T>(TensorView<const std::uint8_t>, TensorView<const double>,                         \
                          TensorView<const std::int64_t>, const MomentumRule<T>&, const MomentumRule<T>&,   \
                          T*, const T*, T*);                                                                \
  template void update<T>(TensorView<const std::uint8_t>, TensorView<const double>,                         \
                          TensorView<const std::int64_t>, const RmsPropRule<T>&, const RmsPropRule<T>&, T*, \
                          const T*, T*);                                                                    \
  template void update<T>(TensorView<const std::uint8_t>, TensorView<const double>,                         \
                          TensorView<const std::int64_t>, const AdamRule<T>&, const AdamRule<T>&, T*,       \
                          const T*, T*, T*);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
