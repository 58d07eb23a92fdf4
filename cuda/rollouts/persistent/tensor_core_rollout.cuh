#pragma once
// The recurrence on tensor cores, over a cluster of blocks.
//
// A block keeps its rows of Q (of Q^T backward) on chip through all steps, as operands of mma.sync. A step:
//   1. receive: the state of the last step arrives from all blocks.
//   2. multiply: each warp multiplies its rows by a quarter of the columns. The four warps of the same rows
//      exchange their sums through shared memory, and each finishes a quarter of the rows.
//   3. finish: each thread makes the new state of its elements and publishes it.
//
// Tensor cores round what they multiply, and a rounded Q is not orthogonal. Its powers grow or shrink: with
// N = 512 and rotations of planes (Init::henaff), 1000 steps multiply a plane by 0.75 to 1.30 where Q has 11
// bits (tf32), by 0.10 to 12.6 where it has 8 (bfloat16). So Q is a sum of two bfloat16, wherever registers
// have room for both: an entry is off by 2^-17 of itself at most, which is 0.8 % in 1000 steps.

#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>

#include "cuda/core/clusters.hpp"
#include "cuda/rollouts/persistent/state_exchange.cuh"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {

/// The operands of mma.sync, whose registers hold rows g and columns l of a fragment: lane = 4 g + l.
///
/// Entries of Q are sums of `MatrixTerms` numbers of bfloat16. A second term is what the first left, rounded.
/// So are those of the state, of which the terms can lie in two ways.
/// - `ColumnTerms` of them are neighbouring columns of B, which has eight. Two terms of four sequences take
/// as
///   many instructions as one term of eight. One lane has the sums of both columns, and adds them.
/// - `OperandTerms` of them are operands of their own, for up to eight sequences. Then the product of the two
///   second terms, 2^-16 of the whole, is left out.
///
/// An infinite number makes its second term NaN, and with it the sums: such a training has diverged.
template <int MatrixTerms, int OperandTerms, int ColumnTerms>
struct Bf16Operands {
  static_assert(OperandTerms == 1 || (MatrixTerms == 2 && ColumnTerms == 1));
  static constexpr int matrix_terms = MatrixTerms, operand_terms = OperandTerms, column_terms = ColumnTerms;
  /// Columns of Q a step of the product, and of B.
  static constexpr int depth = 16, columns = 8;
  /// Sequences of a tile at most, and those of which a lane has the sums: columns 2 l and 2 l + 1.
  static constexpr int tile_sequences = columns / ColumnTerms, lane_sequences = 2 / ColumnTerms;

  /// Products of operands: of the first terms, of Q's second and the state's first, and the other way round.
  static constexpr int products = MatrixTerms + OperandTerms - 1;
  static constexpr __device__ int matrix_term(int product) { return product == 1; }
  static constexpr __device__ int operand_term(int product) { return product == 2; }

  /// One term of two numbers. Two, for the instruction that rounds one alone is slow.
  static __device__ __forceinline__ __nv_bfloat162 terms_of(float x, float y, int term) {
    const __nv_bfloat162 first = __floats2bfloat162_rn(x, y);
    return term == 0 ? first : __floats2bfloat162_rn(x - __low2float(first), y - __high2float(first));
  }
  /// Register i of A: row g + 8 (i % 2), columns 4 l + 2 (i / 2) and the next one. The columns of Q that a
  /// step of the product takes may come in any order, if the state's come in the same.
  template <class Read>
  static __device__ __forceinline__ unsigned left(int term, int i, int g, int l, const Read& read) {
    const int row = g + i % 2 * 8, column = 4 * l + i / 2 * 2;
    const __nv_bfloat162 pair = terms_of(read(row, column), read(row, column + 1), term);
    unsigned bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
  }

  /// What is exchanged of a lane's sequences, as operand `term`.
  static __device__ __forceinline__ __nv_bfloat162 split(const float (&x)[lane_sequences], int term) {
    if constexpr (ColumnTerms == 1) {
      return terms_of(x[0], x[1], term);
    } else {
      return terms_of(x[0], x[0] - __low2float(terms_of(x[0], x[0], 0)), 0);
    }
  }
  /// Where number `row` of the state lies, as operand `term`: terms of four numbers lie side by side, so that
  /// one load of a lane is all that it needs of them.
  static __device__ __forceinline__ int offset(int row, int term) {
    return (row / 4 * OperandTerms + term) * 4 + row % 4;
  }
  /// Both registers of B, of each term: numbers 4 l .. 4 l + 3 of the state that begins at `x`.
  struct State {
    unsigned terms[OperandTerms][2];

    __device__ __forceinline__ State(const __nv_bfloat16* x, int l) {
      x += offset(4 * l, 0);
      if constexpr (OperandTerms == 1) {
        const uint2 loaded = *reinterpret_cast<const uint2*>(x);
        terms[0][0] = loaded.x, terms[0][1] = loaded.y;
      } else {
        const uint4 loaded = *reinterpret_cast<const uint4*>(x);
        terms[0][0] = loaded.x, terms[0][1] = loaded.y, terms[1][0] = loaded.z, terms[1][1] = loaded.w;
      }
    }
  };
};

/// A block has one or two units of so many rows of Q.
inline constexpr int unit_rows = 64;
inline constexpr unsigned tensor_core_threads = 256;

/// What a tile of sequences exchanges: columns of B. Each of them is padded, so that the lanes whose reads
/// are served at once read different banks: the 16 of half a warp where a lane reads eight bytes, the eight
/// of a quarter where it reads 16.
template <class Operands, int Blocks, int Units>
using TileExchange = ClusterExchange<__nv_bfloat16, Blocks, Operands::operand_terms * Units * unit_rows,
                                     Operands::columns, Operands::operand_terms*(Units* unit_rows + 16)>;

/// How the eight warps of a block share a unit, and the shared memory of the block: warp w has rows
/// 32 (w % 2) .. + 31, two fragments of 16, and quarter w / 2 of the columns. Four warps with the same rows
/// meet in shared memory, where each finishes eight of them: those that come first in its own fragments.
template <class OperandsType, int Blocks, int Units, int Tiles>
struct TensorCoreShape {
  using Operands = OperandsType;
  static constexpr int units = Units;
  static constexpr int quarters = 4;
  static constexpr int block_rows = Units * unit_rows, quarter_columns = Blocks * block_rows / quarters;
  /// Steps of the product.
  static constexpr int depths = quarter_columns / Operands::depth;
  /// Fragments of 16 rows that a warp has of a unit, and warps that have all of its rows.
  static constexpr int row_fragments = 2;
  static constexpr int row_warps = unit_rows / (16 * row_fragments);
  /// Operands of Q that a thread has of a unit, four registers each. Of 255 registers a thread, 128 are for
  /// Q. Where two units do not fit, the second is kept in shared memory.
  static constexpr int unit_operands = row_fragments * depths * Operands::matrix_terms;
  static constexpr int register_units = Units * unit_operands * 4 > 128 ? 1 : Units;
  static_assert(register_units * unit_operands * 4 <= 128);
  static constexpr int shared_operands = (Units - register_units) * unit_operands;
  /// Elements that a thread finishes of a tile: a row of each unit, of its lane's sequences.
  static constexpr int owned = Units * Operands::lane_sequences;
  /// Four sums take turns, so that an instruction need not wait for the one before it. Eight took 2 % longer
  /// in all: mma.sync keeps its tensor core for eight cycles, and there are two warps for each.
  static constexpr int chains = 2 / Units;

  using Exchange = TileExchange<Operands, Blocks, Units>;
  static constexpr std::size_t weight_bytes = shared_operands * sizeof(uint4) * tensor_core_threads;
  static constexpr std::size_t exchange_bytes = Tiles * Exchange::shared_bytes;
  /// Sums for others, of each tile: each warp has some for each of three others.
  static constexpr int tile_sums = owned * (quarters - 1) * static_cast<int>(tensor_core_threads);
  /// When operands are loaded, they pass through the same memory.
  static constexpr std::size_t sum_bytes =
      std::max(Tiles * tile_sums * sizeof(float), sizeof(uint4) * tensor_core_threads);
  static constexpr std::size_t shared_bytes = weight_bytes + exchange_bytes + sum_bytes;
  static_assert(shared_bytes <= cluster_shared_memory);
  static_assert(block_rows % quarter_columns == 0 || quarter_columns % block_rows == 0,
                "a quarter of the columns begins with a block or lies in one");
  static_assert(quarters * row_warps * warp_size == tensor_core_threads);
  static_assert(Blocks <= quarters * row_warps + 1, "a warp for each block that is sent to");
};

/// Where a thread stands in its block.
template <class Shape>
struct TensorCorePlace {
  int lane = static_cast<int>(threadIdx.x % warp_size), warp = static_cast<int>(threadIdx.x / warp_size);
  /// Of fragments: lane = 4 g + l.
  int g = lane / 4, l = lane % 4;
  /// The warp's first row in a unit, and its quarter of the columns.
  int warp_row = warp % Shape::row_warps * 16 * Shape::row_fragments, quarter = warp / Shape::row_warps;

  /// The row in its unit whose elements this thread finishes.
  __device__ int own_row() const { return warp_row + quarter * 8 + g; }
  /// Row r of a fragment. Fragments begin with the eight rows that this warp finishes.
  __device__ int fragment_row(int fragment, int r) const {
    const int row_octet = (fragment * 2 + r / 8 + quarter) % Shape::quarters;
    return warp_row + row_octet * 8 + r % 8;
  }
};

/// The operands of Q that stay, as many in registers as fit.
template <class Shape>
class TensorCoreWeights {
  using Operands = typename Shape::Operands;

 public:
  /// `shared` is the memory of the block for the others, weight_bytes long: each thread reads back what it
  /// wrote. `passage` holds a uint4 for each thread, for the time of the call. `read(row, column)` has rows
  /// of the block.
  template <class Read>
  __device__ __forceinline__ void load(const TensorCorePlace<Shape>& place, uint4* shared, uint4* passage,
                                       const Read& read) {
    shared_ = shared + threadIdx.x;
    passage += threadIdx.x;
    const auto operand = [&](int unit, int fragment, int k, int term, int i) {
      return Operands::left(term, i, place.g, place.l, [&](int r, int c) {
        return read(unit * unit_rows + place.fragment_row(fragment, r),
                    place.quarter * Shape::quarter_columns + k * Operands::depth + c);
      });
    };
    const auto registers = [&](int unit, int fragment, int k, int term) {
      return make_uint4(operand(unit, fragment, k, term, 0), operand(unit, fragment, k, term, 1),
                        operand(unit, fragment, k, term, 2), operand(unit, fragment, k, term, 3));
    };
#pragma unroll
    for (int k = 0; k < Shape::depths; ++k) {
#pragma unroll
      for (int fragment = 0; fragment < Shape::row_fragments; ++fragment) {
#pragma unroll
        for (int unit = 0; unit < Shape::register_units; ++unit) {
#pragma unroll
          for (int term = 0; term < Operands::matrix_terms; ++term) {
            // By way of shared memory, so that the rounding is done at once. The compiler would put it off
            // and keep the floats, which are twice as many registers: up to 200 bytes a thread were spilled.
            *passage = registers(unit, fragment, k, term);
            __syncwarp();
            const uint4 x = *passage;
            unsigned(&to)[4] = registers_[unit][fragment][k][term];
            to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
          }
        }
      }
    }
    for (int number = 0; number < Shape::shared_operands; ++number) {
      const int term = number % Operands::matrix_terms, rest = number / Operands::matrix_terms;
      const int fragment = rest % Shape::row_fragments, k = rest / Shape::row_fragments;
      shared_[number * threads] = registers(1, fragment, k, term);
    }
  }

  /// d += the operand's product with b. All numbers are known when the loops around are unrolled.
  __device__ __forceinline__ void multiply_add(float (&d)[4], int unit, int fragment, int k, int term,
                                               const unsigned (&b)[2]) const {
    if (unit < Shape::register_units) {
      return ptx::mma_m16n8k16_bf16(d, registers_[unit][fragment][k][term], b);
    }
    const int number = (k * Shape::row_fragments + fragment) * Operands::matrix_terms + term;
    const uint4 loaded = shared_[number * threads];
    ptx::mma_m16n8k16_bf16(d, {loaded.x, loaded.y, loaded.z, loaded.w}, b);
  }

 private:
  static constexpr int threads = static_cast<int>(tensor_core_threads);

  unsigned registers_[Shape::register_units][Shape::row_fragments][Shape::depths][Operands::matrix_terms][4];
  uint4* shared_ = nullptr;
};

/// The sums of one warp: its rows by its quarter of the columns, of the sequences of a tile.
template <class Shape>
class WarpSums {
  using Operands = typename Shape::Operands;
  using Exchange = typename Shape::Exchange;

 public:
  /// `state` is where the first column of the quarter lies. Of a sequence that is none, a column of the state
  /// holds anything; it reaches that column of the sums alone, and an absent element drops it.
  __device__ __forceinline__ WarpSums(const TensorCorePlace<Shape>& place,
                                      const TensorCoreWeights<Shape>& weights, const __nv_bfloat16* state) {
    state += Exchange::offset(0, place.g);
#pragma unroll
    for (int k = 0; k < Shape::depths; ++k) {
      const int at = Operands::operand_terms * k * Operands::depth;
      const typename Operands::State x(state + Exchange::offset(at, 0) + at % Exchange::rows, place.l);
#pragma unroll
      for (int product = 0; product < Operands::products; ++product) {
        const int chain = (k * Operands::products + product) % Shape::chains;
#pragma unroll
        for (int fragment = 0; fragment < Shape::row_fragments; ++fragment) {
#pragma unroll
          for (int unit = 0; unit < Shape::units; ++unit) {
            weights.multiply_add(sums_[unit][fragment][chain], unit, fragment, k,
                                 Operands::matrix_term(product), x.terms[Operands::operand_term(product)]);
          }
        }
      }
    }
  }
  /// Those of a lane's sequences in row g of an octet, in the order of the fragments.
  struct alignas(sizeof(float) * Operands::lane_sequences) LaneSums {
    float values[Operands::lane_sequences];
  };
  __device__ __forceinline__ LaneSums of(int unit, int row_octet) const {
    LaneSums x{};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int chain = 0; chain < Shape::chains; ++chain)
        x.values[i / Operands::column_terms] += sums_[unit][row_octet / 2][chain][row_octet % 2 * 2 + i];
    }
    return x;
  }

 private:
  float sums_[Shape::units][Shape::row_fragments][Shape::chains][4] = {};
};

/// products = the sums of this thread's elements over the four warps of its rows, by way of `memory`, which
/// is the tile's and shared. Everyone must have read what was there before: a step of the recurrence lies
/// between.
template <class Shape>
__device__ __forceinline__ void add_over_warps(const TensorCorePlace<Shape>& place,
                                               const WarpSums<Shape>& sums, float* memory,
                                               float (&products)[Shape::owned]) {
  using LaneSums = typename WarpSums<Shape>::LaneSums;
  constexpr int quarters = Shape::quarters, row_warps = Shape::row_warps;
  constexpr int sequences = Shape::Operands::lane_sequences;
  /// Where a warp finds what the one `number` + 1 quarters before it has for it.
  const auto slot = [&](int unit, int number, int of_warp) {
    return reinterpret_cast<LaneSums*>(memory) +
           ((unit * (quarters - 1) + number) * static_cast<int>(tensor_core_threads) +
            of_warp * static_cast<int>(warp_size) + place.lane);
  };
#pragma unroll
  for (int unit = 0; unit < Shape::units; ++unit) {
#pragma unroll
    for (int i = 1; i < quarters; ++i) {
      const int of_warp = place.warp % row_warps + (place.quarter + i) % quarters * row_warps;
      *slot(unit, i - 1, of_warp) = sums.of(unit, i);
    }
  }
  __syncthreads();
#pragma unroll
  for (int unit = 0; unit < Shape::units; ++unit) {
    LaneSums sum = sums.of(unit, 0);
#pragma unroll
    for (int number = 0; number < quarters - 1; ++number) {
      const LaneSums x = *slot(unit, number, place.warp);
#pragma unroll
      for (int i = 0; i < sequences; ++i) sum.values[i] += x.values[i];
    }
#pragma unroll
    for (int i = 0; i < sequences; ++i) products[unit * sequences + i] = sum.values[i];
  }
}

/// N padded to 64 * Units * Blocks, over a cluster of Blocks blocks, which carries `Tiles` tiles of
/// `sequences` <= tile_sequences. Tiles have nothing to do with one another: while the state of one travels,
/// the next is multiplied.
///
/// Only what is multiplied is rounded: sums, activations and the states that are kept are float.
template <Direction direction, class Operands, int Blocks, int Units, int Tiles>
__global__ void __launch_bounds__(tensor_core_threads, 1)
    tensor_core_rollout(RolloutArguments<float> arguments, const float* q, int sequences) {
  using Element = RolloutElement<float, direction>;
  using Shape = TensorCoreShape<Operands, Blocks, Units, Tiles>;
  using Exchange = typename Shape::Exchange;
  constexpr bool forward = direction == Direction::forward;
  constexpr int owned = Shape::owned;

  unsigned char* const memory = dynamic_shared_memory();
  Exchange exchanges[Tiles];
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    exchanges[tile] = Exchange(memory + Shape::weight_bytes + tile * Exchange::shared_bytes,
                               sequences * Operands::column_terms);
  }
  Exchange::begin();
  const TensorCorePlace<Shape> place;
  const Index first_row = Index{Exchange::rank()} * Shape::block_rows;
  const Index first_sequence = Index{blockIdx.x / Blocks} * sequences * Tiles;
  const Index n = arguments.hidden_size;

  // 1. What stays: operands of Q, and the elements that this thread finishes.
  TensorCoreWeights<Shape> weights;
  unsigned char* const sum_memory = memory + Shape::weight_bytes + Shape::exchange_bytes;
  weights.load(place, reinterpret_cast<uint4*>(memory), reinterpret_cast<uint4*>(sum_memory),
               [&](int block_row, int column) {
                 const int row = static_cast<int>(first_row) + block_row, size = static_cast<int>(n);
                 return row < size && column < size ? q[forward ? row * size + column : column * size + row]
                                                    : 0.0f;
               });
  constexpr int lane_sequences = Operands::lane_sequences;
  const auto row_of = [&](int i) { return i / lane_sequences * unit_rows + place.own_row(); };
  const auto sequence_of = [&](int i) { return lane_sequences * place.l + i % lane_sequences; };
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

  // 2. The parts of a step.
  /// (Q x)_row, or (Q^T x)_row, for this thread's elements of a tile.
  const auto multiply = [&](int number, int tile, float(&products)[owned]) {
    const int first_column = Operands::operand_terms * place.quarter * Shape::quarter_columns;
    const WarpSums<Shape> sums(place, weights, exchanges[tile].columns(number, first_column));
    add_over_warps(place, sums, reinterpret_cast<float*>(sum_memory) + tile * Shape::tile_sums, products);
  };
  const auto publish = [&](int number, int tile, const float(&x)[owned]) {
#pragma unroll
    for (int unit = 0; unit < Units; ++unit) {
      float of_lane[lane_sequences];
#pragma unroll
      for (int i = 0; i < lane_sequences; ++i) of_lane[i] = x[unit * lane_sequences + i];
#pragma unroll
      for (int term = 0; term < Operands::operand_terms; ++term) {
        const __nv_bfloat162 pair = Operands::split(of_lane, term);
        const int at = Operands::offset(row_of(unit * lane_sequences), term);
        exchanges[tile].store(number, at, 2 * place.l, pair.x);
        exchanges[tile].store(number, at, 2 * place.l + 1, pair.y);
      }
    }
    exchanges[tile].commit(number);
  };
  // Inputs come into registers a step before they are needed, and not through shared memory as in
  // persistent_rollout: with N = 1024 that is full.
  const int length = static_cast<int>(arguments.length);
  const auto time = [&](int step) { return forward ? step : length - 1 - step; };
  const Index stride = (forward ? 1 : -1) * arguments.batch * n;
  typename Element::Place at(arguments, time(0));
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
      elements[tile][i].keep(arguments, time(step), at, products[i], inputs[tile][i], values[i]);
    }
    if (step + 1 < length) load_inputs(step + 1, at.after(stride), tile);
  };

  // 3. Through time, as in persistent_rollout. Forward, published number t is h_t, and step t makes h_{t+1}
  // of it; backward, step t publishes its own g_t.
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
    load_inputs(0, at, tile);
    if constexpr (forward) {
      float values[owned];
#pragma unroll
      for (int i = 0; i < owned; ++i) values[i] = elements[tile][i].start(arguments);
      publish(0, tile, values);
    } else {
      finish(0, 0, tile, {});
    }
  }
  if constexpr (!forward) at = at.after(stride);
  for (int number = 0; number < length; ++number, at = at.after(stride)) {
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
