#include <algorithm>
#include <cassert>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/optim/optimizer.hpp"
#include "orthornn/core/parameters.hpp"
#include "orthornn/scalar/update_rules.hpp"

namespace orthornn::cuda {

namespace {

/// A thread has `pack` neighbours at a time.
template <int pack, class T, class Rule, class... Moments>
__global__ void update_kernel(Index count, const std::uint8_t* kinds, const double* gradient_scale,
                              const std::int64_t* halted, Rule ordinary, Rule orthogonal, T* values,
                              const T* gradients, Moments*... moments) {
  if (halted != nullptr && *halted != 0) return;
  const T scale = gradient_scale != nullptr ? static_cast<T>(*gradient_scale) : T{1};
  const auto apply = [&](std::uint8_t kind, T& value, T gradient, auto&... moment) {
    if (kind == static_cast<std::uint8_t>(ParameterKind::stiefel)) return;
    const Rule rule = kind == static_cast<std::uint8_t>(ParameterKind::orthogonal) ? orthogonal : ordinary;
    rule(value, scale * gradient, moment...);
  };
  const Index stride = static_cast<Index>(gridDim.x) * blockDim.x, whole = count / pack * pack;
  for (Index i = grid_thread() * pack; i < whole; i += stride * pack) {
    const auto kind = load_pack<pack>(kinds + i);
    const auto d = load_pack<pack>(gradients + i);
    auto value = load_pack<pack>(values + i);
    const auto update = [&](Pack<Moments, pack>... moment) {
#pragma unroll
      for (int e = 0; e < pack; ++e) apply(kind.of[e], value.of[e], d.of[e], moment.of[e]...);
      (store_pack(moment, moments + i), ...);
    };
    update(load_pack<pack>(moments + i)...);
    store_pack(value, values + i);
  }
  const Index i = whole + grid_thread();
  if (i < count) apply(kinds[i], values[i], gradients[i], moments[i]...);
}

}  // namespace

template <class T, class Rule, class... Moments>
void update(const FlatUpdate<T>& flat, const Rule& ordinary, const Rule& orthogonal, Moments*... moments) {
  const Index count = flat.kinds.size();
  if (count == 0) return;
  constexpr unsigned threads = 256;
  constexpr Index max_blocks = 1024;
  constexpr int pack = 4;
  // Each of these tensors has an allocation of its own.
  assert(is_aligned_for<4>(flat.kinds.data()) && is_aligned_for<4>(flat.values) &&
         is_aligned_for<4>(flat.gradients) && (is_aligned_for<4>(moments) && ...));
  launch(context(flat.kinds.device()), update_kernel<pack, T, Rule, Moments...>,
         {.grid = static_cast<unsigned>(std::min<Index>(max_blocks, blocks_for(count, threads * pack))),
          .block = threads},
         count, flat.kinds.data(), flat.gradient_scale.data(), flat.halted.data(), ordinary, orthogonal,
         flat.values, flat.gradients, moments...);
}

#define ORTHORNN_INSTANTIATE(T)                                                                 \
  template void update(const FlatUpdate<T>&, const SgdRule<T>&, const SgdRule<T>&);             \
  template void update(const FlatUpdate<T>&, const SgdRule<T>&, const SgdRule<T>&, T*);         \
  template void update(const FlatUpdate<T>&, const RmsPropRule<T>&, const RmsPropRule<T>&, T*); \
  template void update(const FlatUpdate<T>&, const AdamRule<T>&, const AdamRule<T>&, T*, T*);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
