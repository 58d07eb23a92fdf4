#pragma once

#include "cuda/delta/warp_product.cuh"

namespace orthornn::cuda {

/// What makes key r of a tile have norm 1; 0 for zeros.
template <class Tile>
__device__ __forceinline__ float key_factor(const Tile& keys, int r) {
  float squares = 0;
#pragma unroll 1
  for (int v = 0; v < Tile::vectors; ++v) {
    const auto* const x = keys.at_vector(r, v);
#pragma unroll
    for (int j = 0; j < 16 / static_cast<int>(sizeof(*x)); ++j) {
      const float k = static_cast<float>(x[j]);
      squares += k * k;
    }
  }
  return squares > 0 ? 1 / sqrtf(squares) : 0.0F;
}

}  // namespace orthornn::cuda
