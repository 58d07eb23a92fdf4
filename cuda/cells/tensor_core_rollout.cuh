#pragma once

#include <cuda_bf16.h>

#include <cstring>

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
    unsigned bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
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

/// A block has 128 rows of Q: two units of 64.
inline constexpr int unit_rows = 64;
inline constexpr int units = 2;
inline constexpr unsigned tensor_core_threads = 256;

/// What a tile of eight sequences exchanges. Rows of a slice are padded by 16 bytes, so that the eight
/// sequences and four depths that a warp reads at once lie in 32 different banks.
template <class Operand, int Blocks>
using TileExchange =
    ClusterExchange<typename Operand::Element, Blocks, units * unit_rows, 8,
                    units * unit_rows + 16 / static_cast<int>(sizeof(typename Operand::Element))>;

/// The shared memory of a block.
template <class Operand, int Blocks, int Tiles>
struct TensorCoreMemory {
  /// Steps of the product: each half of a block's warps takes half of the columns.
  static constexpr int half_columns = Blocks * units * unit_rows / 2;
  static constexpr int depths = half_columns / Operand::depth;
  /// Of 255 registers a thread, 128 are for Q. Where two units do not fit, the second is kept here.
  static constexpr bool second_unit_is_shared = depths * 4 * units > 128;

  static constexpr std::size_t weights =
      second_unit_is_shared ? std::size_t{depths} * sizeof(uint4) * tensor_core_threads : 0;
  static constexpr std::size_t exchanges = Tiles * TileExchange<Operand, Blocks>::shared_bytes;
  /// Where the two halves of a sum meet.
  static constexpr std::size_t partial = sizeof(float) * Tiles * units * 2 * tensor_core_threads;
  static constexpr std::size_t bytes = weights + exchanges + partial;
};

/// The recurrence on tensor cores, N padded to 128 * Blocks, over a cluster of Blocks blocks, which carries
/// `Tiles` tiles of eight sequences. Tiles have nothing to do with one another: while the state of one
/// travels, the next is multiplied. The eight warps of a block hold its rows of Q (or Q^T) as operands: warp
/// w has, of each unit, rows 16 (w % 4) .. + 15 and half w / 4 of the columns. The two halves of a sum meet
/// in shared memory, where each warp of a pair finishes one half of their 16 rows.
///
/// Blocks are as few as hold Q: what a block receives each step is N times the sequences of its cluster, and
/// that is what a step takes longest.
///
/// Only what is multiplied is rounded: sums, activations and the states that are kept are float.
template <Direction direction, class Operand, int Blocks, int Tiles>
__global__ void __launch_bounds__(tensor_core_threads, 1)
    tensor_core_rollout(RolloutArguments<float> arguments, const float* q) {
  using Element = RolloutElement<float, direction>;
  using Exchange = TileExchange<Operand, Blocks>;
  using Memory = TensorCoreMemory<Operand, Blocks, Tiles>;
  constexpr bool forward = direction == Direction::forward;
  constexpr int row_tiles = unit_rows / 16;
  constexpr int half_columns = Memory::half_columns, depths = Memory::depths;
  constexpr int register_units = Memory::second_unit_is_shared ? 1 : units;
  constexpr int owned = 2 * units;

  unsigned char* const memory = dynamic_shared_memory();
  uint4* const shared_weights = reinterpret_cast<uint4*>(memory) + threadIdx.x;
  Exchange exchanges[Tiles];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    exchanges[tile] = Exchange(memory + Memory::weights + tile * Exchange::shared_bytes);
  }
  Exchange::begin();
  float* const partial = reinterpret_cast<float*>(memory + Memory::weights + Memory::exchanges);
  const int lane = static_cast<int>(threadIdx.x % warp_size),
            warp = static_cast<int>(threadIdx.x / warp_size);
  const int g = lane / 4, l = lane % 4;
  const int row_tile = warp % row_tiles, half = warp / row_tiles;
  const Index first_row = Index{Exchange::rank()} * Exchange::rows;
  const Index first_sequence = Index{blockIdx.x / Blocks} * 8 * Tiles;
  const Index n = arguments.hidden_size;

  // 1. The operands that stay: where they are shared, each thread reads back what it wrote.
  const auto operand = [&](int unit, int k, int i) {
    return Operand::left(i, g, l, [&](int r, int c) {
      const Index row = first_row + unit * unit_rows + row_tile * 16 + r;
      const Index column = half * half_columns + k * Operand::depth + c;
      return row < n && column < n ? (forward ? q[row * n + column] : q[column * n + row]) : 0.0f;
    });
  };
  unsigned weights[register_units][depths][4];
#pragma unroll
  for (int k = 0; k < depths; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int unit = 0; unit < register_units; ++unit) weights[unit][k][i] = operand(unit, k, i);
    }
  }
  for (int k = 0; k < depths && register_units < units; ++k) {
    shared_weights[k * tensor_core_threads] =
        make_uint4(operand(1, k, 0), operand(1, k, 1), operand(1, k, 2), operand(1, k, 3));
  }

  // 2. The elements that this thread finishes: a row of each unit, two neighbouring sequences of each tile.
  const int row = row_tile * 16 + g + 8 * half;
  const auto row_of = [&](int i) { return i / 2 * unit_rows + row; };
  const auto sequence_of = [&](int i) { return 2 * l + i % 2; };
  Element elements[Tiles][owned];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      elements[tile][i] =
          Element(arguments, first_row + row_of(i), first_sequence + tile * 8 + sequence_of(i));
    }
  }
  const auto publish = [&](int step, int tile, const float(&x)[owned]) {
#pragma unroll
    for (int i = 0; i < owned; ++i)
      exchanges[tile].store(step, row_of(i), sequence_of(i), Operand::round(x[i]));
    exchanges[tile].commit(step);
  };

  /// (Q x)_row, or (Q^T x)_row, for this thread's elements of a tile.
  const auto multiply = [&](int step, int tile, float(&products)[owned]) {
    // Two sums of each unit take turns: an instruction need not wait for the one before it.
    float sums[units][2][4] = {};
    const auto* const state = exchanges[tile].columns(step, half * half_columns) + Exchange::offset(0, g);
#pragma unroll
    for (int k = 0; k < depths; ++k) {
      const int column = k * Operand::depth;
      unsigned x[2];
      Operand::right(x, state + Exchange::offset(column, 0) + column % Exchange::rows, l);
#pragma unroll
      for (int unit = 0; unit < register_units; ++unit)
        Operand::multiply_add(sums[unit][k % 2], weights[unit][k], x);
      if constexpr (register_units < units) {
        const uint4 loaded = shared_weights[k * tensor_core_threads];
        Operand::multiply_add(sums[1][k % 2], {loaded.x, loaded.y, loaded.z, loaded.w}, x);
      }
    }
    // The other half finishes the rows that this one does not.
    float* const pairs = partial + tile * owned * static_cast<int>(tensor_core_threads) + lane;
    float* const given = pairs + (half * row_tiles + row_tile) * owned * static_cast<int>(warp_size);
    const float* const taken =
        pairs + ((1 - half) * row_tiles + row_tile) * owned * static_cast<int>(warp_size);
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      const float low = sums[i / 2][0][i % 2] + sums[i / 2][1][i % 2];
      const float high = sums[i / 2][0][2 + i % 2] + sums[i / 2][1][2 + i % 2];
      given[i * static_cast<int>(warp_size)] = half == 0 ? high : low;
      products[i] = half == 0 ? low : high;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < owned; ++i) products[i] += taken[i * static_cast<int>(warp_size)];
  };

  // 3. Through time, as in persistent_rollout; but inputs come into registers, a step before they are needed:
  // a step is long, and shared memory full.
  const int length = static_cast<int>(arguments.length);
  const auto time = [&](int step) { return forward ? step : length - 1 - step; };
  const Index stride = (forward ? 1 : -1) * arguments.batch * n;
  Index place = forward ? 0 : (length - 1) * arguments.batch * n;
  typename Element::Input inputs[Tiles][owned];
  const auto load_inputs = [&](int step, Index from, int tile) {
#pragma unroll
    for (int i = 0; i < owned; ++i)
      inputs[tile][i] = load_input(elements[tile][i], arguments, time(step), from);
  };
  const auto finish = [&](int step, int number, int tile, const float(&products)[owned]) {
    float values[owned];
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      values[i] = elements[tile][i].value(arguments, time(step), products[i], inputs[tile][i]);
    }
    if (number < length) publish(number, tile, values);
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      elements[tile][i].keep(arguments, time(step), place, products[i], inputs[tile][i], values[i]);
    }
    if (step + 1 < length) load_inputs(step + 1, place + stride, tile);
  };

#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    load_inputs(0, place, tile);
    if constexpr (forward) {
      float values[owned];
#pragma unroll
      for (int i = 0; i < owned; ++i) values[i] = elements[tile][i].start(arguments);
      publish(0, tile, values);
    } else {
      finish(0, 0, tile, {});
    }
  }
  if constexpr (!forward) place += stride;
  for (int number = 0; number < length; ++number, place += stride) {
    const int step = forward ? number : number + 1;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      float products[owned];
      exchanges[tile].receive(number);
      multiply(number, tile, products);
      if constexpr (!forward) {
        if (step == length) {
#pragma unroll
          for (int i = 0; i < owned; ++i) elements[tile][i].end(arguments, products[i]);
          continue;
        }
      }
      finish(step, number + 1, tile, products);
    }
  }
  Exchange::end();
}

}  // namespace orthornn::cuda
