#pragma once

#include <cuda_bf16.h>

#include <cstring>

#include "cuda/cells/rollout_element.cuh"
#include "cuda/cells/state_exchange.cuh"
#include "cuda/core/clusters.hpp"

namespace orthornn::cuda {

// The operands of mma.sync, whose registers hold rows g and columns l of a fragment: lane = 4 g + l. The
// columns of Q that a step of the product takes may come in any order, if the state's come in the same. So
// lane l takes eight neighbouring bytes of the state, which is one load, for both registers of B.

/// As bfloat16: 16 columns of Q a step of the product.
struct Bf16Operand {
  using Element = __nv_bfloat16;
  static constexpr int depth = 16;

  static __device__ __forceinline__ Element round(float x) { return __float2bfloat16(x); }
  /// Register i of A: row g + 8 (i % 2), columns 4 l + 2 (i / 2) and the next one.
  template <class Read>
  static __device__ __forceinline__ unsigned left(int i, int g, int l, const Read& read) {
    const int row = g + i % 2 * 8, column = 4 * l + i / 2 * 2;
    const __nv_bfloat162 pair = __floats2bfloat162_rn(read(row, column), read(row, column + 1));
    unsigned bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
  }
  /// Registers of B: columns 4 l .. 4 l + 3 of the state that begins at `x`.
  static __device__ __forceinline__ uint2 right(const Element* x, int l) {
    return *reinterpret_cast<const uint2*>(x + 4 * l);
  }
  static __device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], uint2 b) {
    ptx::mma_m16n8k16_bf16(d, a, {b.x, b.y});
  }
};

/// As tf32: 8 columns a step.
struct Tf32Operand {
  using Element = float;
  static constexpr int depth = 8;

  /// Rounded where it is made, once, and not by every reader.
  static __device__ __forceinline__ Element round(float x) { return __uint_as_float(ptx::round_to_tf32(x)); }
  /// Register i of A: row g + 8 (i % 2), column 2 l + i / 2.
  template <class Read>
  static __device__ __forceinline__ unsigned left(int i, int g, int l, const Read& read) {
    return ptx::round_to_tf32(read(g + i % 2 * 8, 2 * l + i / 2));
  }
  /// Registers of B: columns 2 l and 2 l + 1.
  static __device__ __forceinline__ uint2 right(const Element* x, int l) {
    return *reinterpret_cast<const uint2*>(x + 2 * l);
  }
  static __device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], uint2 b) {
    ptx::mma_m16n8k8_tf32(d, a, {b.x, b.y});
  }
};

/// A block has one or two units of so many rows of Q.
inline constexpr int unit_rows = 64;
inline constexpr unsigned tensor_core_threads = 256;
/// Sequences of a tile at most: the columns of mma.sync.
inline constexpr int tile_sequences = 8;

/// What a tile of sequences exchanges. Each of them is padded by 32 bytes, so that the eight bytes that the
/// 16 lanes of half a warp read at once lie in different banks.
template <class Operand, int Blocks, int Units>
using TileExchange =
    ClusterExchange<typename Operand::Element, Blocks, Units * unit_rows, tile_sequences,
                    Units * unit_rows + 32 / static_cast<int>(sizeof(typename Operand::Element))>;

/// How the eight warps of a block share a unit, and the shared memory of the block: warp w has rows
/// 32 (w % 2) .. + 31, two fragments of 16, and quarter w / 2 of the columns. Four warps with the same rows
/// meet in shared memory, where each finishes eight of them: those that come first in its own fragments.
template <class Operand, int Blocks, int Units, int Tiles>
struct TensorCoreShape {
  static constexpr int quarters = 4;
  static constexpr int quarter_columns = Blocks * Units * unit_rows / quarters;
  /// Steps of the product.
  static constexpr int depths = quarter_columns / Operand::depth;
  /// Fragments of 16 rows that a warp has of a unit, and warps that have all of its rows.
  static constexpr int row_fragments = 2;
  static constexpr int row_warps = unit_rows / (16 * row_fragments);
  /// Of 255 registers a thread, 128 are for Q. Where two units do not fit, the second is kept in shared
  /// memory.
  static constexpr int register_units = Units * row_fragments * depths * 4 > 128 ? 1 : Units;
  static constexpr int shared_fragments = (Units - register_units) * row_fragments * depths;

  using Exchange = TileExchange<Operand, Blocks, Units>;
  static constexpr std::size_t weight_bytes = shared_fragments * sizeof(uint4) * tensor_core_threads;
  static constexpr std::size_t exchange_bytes = Tiles * Exchange::shared_bytes;
  /// Sums for others, of each tile: each warp has two a lane for each of three others.
  static constexpr std::size_t sum_bytes =
      Tiles * Units * (quarters - 1) * sizeof(float2) * tensor_core_threads;
  static constexpr std::size_t shared_bytes = weight_bytes + exchange_bytes + sum_bytes;
  static_assert(shared_bytes <= cluster_shared_memory);
  static_assert(Exchange::rows % quarter_columns == 0 || quarter_columns % Exchange::rows == 0,
                "a quarter of the columns begins with a block or lies in one");
  static_assert(quarters * row_warps * warp_size == tensor_core_threads);
  static_assert(Blocks <= quarters * row_warps + 1, "a warp for each block that is sent to");
};

/// The recurrence on tensor cores, N padded to 64 * Units * Blocks, over a cluster of Blocks blocks, which
/// carries `Tiles` tiles of `sequences` <= 8 sequences. Tiles have nothing to do with one another: while the
/// state of one travels, the next is multiplied.
///
/// Only what is multiplied is rounded: sums, activations and the states that are kept are float.
template <Direction direction, class Operand, int Blocks, int Units, int Tiles>
__global__ void __launch_bounds__(tensor_core_threads, 1)
    tensor_core_rollout(RolloutArguments<float> arguments, const float* q, int sequences) {
  using Element = RolloutElement<float, direction>;
  using Block = TensorCoreShape<Operand, Blocks, Units, Tiles>;
  using Exchange = typename Block::Exchange;
  constexpr bool forward = direction == Direction::forward;
  constexpr int quarters = Block::quarters, depths = Block::depths, row_fragments = Block::row_fragments,
                row_warps = Block::row_warps;
  constexpr int register_units = Block::register_units;
  constexpr int threads = static_cast<int>(tensor_core_threads);
  constexpr int owned = 2 * Units;

  unsigned char* const memory = dynamic_shared_memory();
  uint4* const shared_weights = reinterpret_cast<uint4*>(memory) + threadIdx.x;
  Exchange exchanges[Tiles];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    exchanges[tile] = Exchange(memory + Block::weight_bytes + tile * Exchange::shared_bytes, sequences);
  }
  Exchange::begin();
  const int lane = static_cast<int>(threadIdx.x % warp_size),
            warp = static_cast<int>(threadIdx.x / warp_size);
  const int g = lane / 4, l = lane % 4;
  const int warp_row = warp % row_warps * 16 * row_fragments, quarter = warp / row_warps;
  const Index first_row = Index{Exchange::rank()} * Exchange::rows;
  const Index first_sequence = Index{blockIdx.x / Blocks} * sequences * Tiles;
  const Index n = arguments.hidden_size;

  // 1. The operands that stay: where they are shared, each thread reads back what it wrote.
  const auto operand = [&](int unit, int fragment, int k, int i) {
    return Operand::left(i, g, l, [&](int r, int c) {
      const int eight = (fragment * 2 + r / 8 + quarter) % quarters;
      const Index row = first_row + unit * unit_rows + warp_row + eight * 8 + r % 8;
      const Index column = quarter * Block::quarter_columns + k * Operand::depth + c;
      return row < n && column < n ? (forward ? q[row * n + column] : q[column * n + row]) : 0.0f;
    });
  };
  unsigned weights[register_units][row_fragments][depths][4];
#pragma unroll
  for (int k = 0; k < depths; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int fragment = 0; fragment < row_fragments; ++fragment) {
#pragma unroll
        for (int unit = 0; unit < register_units; ++unit)
          weights[unit][fragment][k][i] = operand(unit, fragment, k, i);
      }
    }
  }
  for (int f = 0; f < Block::shared_fragments; ++f) {
    const int fragment = f % row_fragments, k = f / row_fragments;
    shared_weights[f * threads] = make_uint4(operand(1, fragment, k, 0), operand(1, fragment, k, 1),
                                             operand(1, fragment, k, 2), operand(1, fragment, k, 3));
  }

  // 2. The elements that this thread finishes: a row of each unit, two neighbouring sequences of each tile.
  const int row = warp_row + quarter * 8 + g;
  const auto row_of = [&](int i) { return i / 2 * unit_rows + row; };
  const auto sequence_of = [&](int i) { return 2 * l + i % 2; };
  Element elements[Tiles][owned];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < owned; ++i) {
      const int s = sequence_of(i);
      elements[tile][i] = Element(arguments, first_row + row_of(i),
                                  s < sequences ? first_sequence + tile * sequences + s : arguments.batch);
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
    // Four sums take turns: an instruction need not wait for the one before it. Of a sequence that is none,
    // a column of x holds anything; it reaches that column of the sums alone, and an absent element drops it.
    constexpr int chains = 2 / Units;
    float sums[Units][row_fragments][chains][4] = {};
    const auto* const state =
        exchanges[tile].columns(step, quarter * Block::quarter_columns) + Exchange::offset(0, g);
#pragma unroll
    for (int k = 0; k < depths; ++k) {
      const int column = k * Operand::depth;
      const uint2 x = Operand::right(state + Exchange::offset(column, 0) + column % Exchange::rows, l);
#pragma unroll
      for (int f = 0; f < row_fragments; ++f) {
#pragma unroll
        for (int unit = 0; unit < register_units; ++unit)
          Operand::multiply_add(sums[unit][f][k % chains], weights[unit][f][k], x);
        if constexpr (register_units < Units) {
          const uint4 loaded = shared_weights[(k * row_fragments + f) * threads];
          Operand::multiply_add(sums[1][f][k % chains], {loaded.x, loaded.y, loaded.z, loaded.w}, x);
        }
      }
    }
    // Two sums at a time, of two sequences: of row g of this warp's eight rows, and for the three others.
    const auto pair = [&](int unit, int eight) {
      float2 x{0, 0};
#pragma unroll
      for (int chain = 0; chain < chains; ++chain) {
        x.x += sums[unit][eight / 2][chain][eight % 2 * 2];
        x.y += sums[unit][eight / 2][chain][eight % 2 * 2 + 1];
      }
      return x;
    };
    float2* const slots = reinterpret_cast<float2*>(memory + Block::weight_bytes + Block::exchange_bytes) +
                          tile * Units * (quarters - 1) * threads + lane;
    /// Where a warp finds what the one `number` + 1 quarters before it has for it.
    const auto slot = [&](int unit, int number, int of_warp) {
      return slots + ((unit * (quarters - 1) + number) * threads + of_warp * static_cast<int>(warp_size));
    };
#pragma unroll
    for (int unit = 0; unit < Units; ++unit) {
#pragma unroll
      for (int i = 1; i < quarters; ++i)
        *slot(unit, i - 1, warp % row_warps + (quarter + i) % quarters * row_warps) = pair(unit, i);
    }
    __syncthreads();
#pragma unroll
    for (int unit = 0; unit < Units; ++unit) {
      float2 sum = pair(unit, 0);
#pragma unroll
      for (int number = 0; number < quarters - 1; ++number) {
        const float2 x = *slot(unit, number, warp);
        sum.x += x.x, sum.y += x.y;
      }
      products[2 * unit] = sum.x, products[2 * unit + 1] = sum.y;
    }
  };

  // 3. Through time, as in persistent_rollout; but inputs come into registers, a step before they are needed:
  // with N = 1024, shared memory is full.
  const int length = static_cast<int>(arguments.length);
  const auto time = [&](int step) { return forward ? step : length - 1 - step; };
  const Index stride = (forward ? 1 : -1) * arguments.batch * n;
  typename Element::Place place(arguments, time(0));
  typename Element::Input inputs[Tiles][owned];
  const auto load_inputs = [&](int step, const typename Element::Place& from, int tile) {
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
    if (step + 1 < length) load_inputs(step + 1, place.after(stride), tile);
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
  if constexpr (!forward) place = place.after(stride);
  for (int number = 0; number < length; ++number, place = place.after(stride)) {
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
