#pragma once

#include <cuda_bf16.h>

#include "cuda/cells/rollout_element.cuh"
#include "cuda/cells/state_exchange.cuh"

namespace orthornn::cuda {

/// Operands of mma.sync as bfloat16: 16 columns of Q a step of the product.
struct Bf16Operand {
  using Element = __nv_bfloat16;
  static constexpr int depth = 16;

  static __device__ __forceinline__ Element round(float x) { return __float2bfloat16(x); }
  /// Two neighbours of a row of A.
  static __device__ __forceinline__ unsigned pack(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&pair);
  }
  /// Register i of A holds row g + 8 (i % 2), columns 2 l + 8 (i / 2) and the next one.
  template <class Read>
  static __device__ __forceinline__ unsigned left(int i, int g, int l, const Read& read) {
    const int row = g + i % 2 * 8, column = 2 * l + i / 2 * 8;
    return pack(read(row, column), read(row, column + 1));
  }
  /// Registers of B: rows 2 l and 2 l + 8, with the next one each, of the column that begins at `x`.
  static __device__ __forceinline__ void right(unsigned (&b)[2], const Element* x, int l) {
    b[0] = *reinterpret_cast<const unsigned*>(x + 2 * l);
    b[1] = *reinterpret_cast<const unsigned*>(x + 2 * l + 8);
  }
  static __device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4],
                                                      const unsigned (&b)[2]) {
    ptx::mma_m16n8k16_bf16(d, a, b);
  }
};

/// The same as tf32: 8 columns a step.
struct Tf32Operand {
  using Element = float;
  static constexpr int depth = 8;

  /// Rounded where it is made, once, and not by every reader.
  static __device__ __forceinline__ Element round(float x) { return __uint_as_float(ptx::round_to_tf32(x)); }
  template <class Read>
  static __device__ __forceinline__ unsigned left(int i, int g, int l, const Read& read) {
    return ptx::round_to_tf32(read(g + i % 2 * 8, l + i / 2 * 4));
  }
  static __device__ __forceinline__ void right(unsigned (&b)[2], const Element* x, int l) {
    b[0] = __float_as_uint(x[l]);
    b[1] = __float_as_uint(x[l + 4]);
  }
  static __device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4],
                                                      const unsigned (&b)[2]) {
    ptx::mma_m16n8k8_tf32(d, a, b);
  }
};

/// Rows of a slice are padded by 16 bytes, so that the eight sequences and four depths that a warp reads at
/// once lie in 32 different banks.
template <class Operand>
inline constexpr int padded_rows = 64 + 16 / static_cast<int>(sizeof(typename Operand::Element));

/// What a tile of eight sequences exchanges.
template <class Operand, int Blocks>
using TileExchange = ClusterExchange<typename Operand::Element, Blocks, 8, padded_rows<Operand>>;

inline constexpr unsigned tensor_core_threads = 256;
/// Shared memory in which the two halves of the columns meet, for each tile.
inline constexpr std::size_t partial_bytes = 2 * sizeof(float) * tensor_core_threads;

/// The recurrence on tensor cores, N padded to 64 * Blocks, over a cluster of Blocks blocks, which carries
/// `Tiles` tiles of eight sequences. Tiles have nothing to do with one another: while the state of one
/// travels, the next is multiplied. The eight warps of a block hold its 64 rows of Q (or Q^T) as operands in
/// registers: warp w rows 16 (w % 4) .. + 15 and half w / 4 of the columns. The two halves of a sum meet in
/// shared memory, where each warp of a pair finishes one half of their 16 rows.
///
/// Only what is multiplied is rounded: sums, activations and the states that are kept are float.
template <Direction direction, class Operand, int Blocks, int Tiles>
__global__ void __launch_bounds__(tensor_core_threads, 1)
    tensor_core_rollout(RolloutArguments<float> arguments, const float* q) {
  using Element = RolloutElement<float, direction>;
  using Exchange = TileExchange<Operand, Blocks>;
  constexpr bool forward = direction == Direction::forward;
  constexpr int half_columns = 32 * Blocks;
  constexpr int depths = half_columns / Operand::depth;
  constexpr int row_tiles = 4;

  Exchange exchanges[Tiles];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    exchanges[tile] = Exchange(dynamic_shared_memory() + tile * Exchange::shared_bytes);
  }
  Exchange::begin();
  float* const partial = reinterpret_cast<float*>(dynamic_shared_memory() + Tiles * Exchange::shared_bytes);
  const int lane = static_cast<int>(threadIdx.x % warp_size),
            warp = static_cast<int>(threadIdx.x / warp_size);
  const int g = lane / 4, l = lane % 4;
  const int row_tile = warp % row_tiles, half = warp / row_tiles;
  const Index first_row = Index{Exchange::rank()} * Exchange::rows + row_tile * 16;
  const Index first_sequence = Index{blockIdx.x / Blocks} * 8 * Tiles;
  const Index n = arguments.hidden_size;

  // 1. The operands that stay.
  unsigned weights[depths][4];
#pragma unroll
  for (int k = 0; k < depths; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[k][i] = Operand::left(i, g, l, [&](int r, int c) {
        const Index row = first_row + r, column = half * half_columns + k * Operand::depth + c;
        return row < n && column < n ? (forward ? q[row * n + column] : q[column * n + row]) : 0.0f;
      });
    }
  }

  // 2. The elements that this thread finishes: one row, two neighbouring sequences of each tile.
  const int row = g + 8 * half;
  Element elements[Tiles][2];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    for (int i = 0; i < 2; ++i) {
      elements[tile][i] = Element(arguments, first_row + row, first_sequence + tile * 8 + 2 * l + i);
    }
  }
  const auto publish = [&](Index step, int tile, const float(&x)[2]) {
    for (int i = 0; i < 2; ++i)
      exchanges[tile].store(step, row_tile * 16 + row, 2 * l + i, Operand::round(x[i]));
    exchanges[tile].commit(step);
  };

  /// (Q x)_row, or (Q^T x)_row, for this thread's elements of a tile.
  const auto multiply = [&](Index step, int tile, float(&products)[2]) {
    // Four sums take turns: an instruction need not wait for the one before it.
    constexpr int chains = 4;
    float sums[chains][4] = {};
    const auto* const state = exchanges[tile].columns(step, half * half_columns) + Exchange::offset(0, g);
#pragma unroll
    for (int k = 0; k < depths; ++k) {
      const int column = k * Operand::depth;
      unsigned x[2];
      Operand::right(x, state + Exchange::offset(column, 0) + column % Exchange::rows, l);
      Operand::multiply_add(sums[k % chains], weights[k], x);
    }
    // The other half finishes the rows that this one does not.
    float* const pairs = partial + tile * 2 * tensor_core_threads + lane;
    float* const given = pairs + (half * row_tiles + row_tile) * 2 * warp_size;
    const float* const taken = pairs + ((1 - half) * row_tiles + row_tile) * 2 * warp_size;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float low = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
      const float high = (sums[0][2 + i] + sums[1][2 + i]) + (sums[2][2 + i] + sums[3][2 + i]);
      given[i * warp_size] = half == 0 ? high : low;
      products[i] = half == 0 ? low : high;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i) products[i] += taken[i * warp_size];
  };

  // 3. Through time, as in persistent_rollout.
  const Index stride = (forward ? 1 : -1) * arguments.batch * n;
  Index place = forward ? 0 : (arguments.length - 1) * arguments.batch * n;
  const auto time = [&](Index step) { return forward ? step : arguments.length - 1 - step; };
  typename Element::Input inputs[Tiles][2];
  const auto load_input = [&](Index step, Index from, int tile) {
    for (int i = 0; i < 2; ++i) inputs[tile][i] = elements[tile][i].load(arguments, time(step), from);
  };
  const auto finish = [&](Index step, int tile, const float(&products)[2], float(&values)[2]) {
    for (int i = 0; i < 2; ++i) {
      values[i] = elements[tile][i].finish(arguments, time(step), place, products[i], inputs[tile][i]);
    }
  };
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    load_input(0, place, tile);
    float values[2];
    if constexpr (forward) {
      for (int i = 0; i < 2; ++i) values[i] = elements[tile][i].start(arguments);
    } else {
      finish(0, tile, {0.0f, 0.0f}, values);
      load_input(1, place + stride, tile);
    }
    publish(0, tile, values);
  }
  for (Index step = 0; step < arguments.length; ++step) {
    const bool is_last = step + 1 == arguments.length;
    if constexpr (!forward) place += stride;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      float products[2], values[2];
      exchanges[tile].receive(step);
      multiply(step, tile, products);
      if constexpr (forward) {
        finish(step, tile, products, values);
        load_input(step + 1, place + stride, tile);
        if (!is_last) publish(step + 1, tile, values);
      } else if (!is_last) {
        finish(step + 1, tile, products, values);
        load_input(step + 2, place + stride, tile);
        publish(step + 1, tile, values);
      } else {
        for (int i = 0; i < 2; ++i) elements[tile][i].end(arguments, products[i]);
      }
    }
    if constexpr (forward) place += stride;
  }
  Exchange::end();
}

}  // namespace orthornn::cuda
