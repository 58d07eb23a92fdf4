#pragma once
// The product of a step on tensor cores: how a block keeps its rows of Q on chip, as operands of mma.sync,
// and how its warps multiply them by the state.
//
// Tensor cores round what they multiply, and a rounded Q is not orthogonal. Its powers grow or shrink: with
// N = 512 and rotations of planes (Init::henaff), 1000 steps multiply a plane by 0.75 to 1.30 where Q has 11
// bits (tf32), by 0.10 to 12.6 where it has 8 (bfloat16). So Q is a sum of two bfloat16, wherever registers
// have room for both: an entry is off by 2^-17 of itself at most, which is 0.8 % in 1000 steps.

#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cuda/core/clusters.hpp"
#include "cuda/rollouts/persistent/column_exchange.cuh"

namespace orthornn::cuda {

/// The operands of mma.sync, whose registers hold rows g and columns l of a fragment: lane = 4 g + l.
///
/// Entries of Q are sums of `MatrixTerms` numbers of bfloat16. A second term is what the first left, rounded.
/// So are those of the state, of which the terms can lie in two ways.
/// - `ColumnTerms` of them are neighbouring columns of B, which has eight. Two terms of four sequences take
///   as many instructions as one term of eight. One lane has the sums of both columns, and adds them.
/// - `OperandTerms` of them are operands of their own, for up to eight sequences. Then the product of the two
///   second terms, 2^-16 of the whole, is left out.
///
/// More sequences take `Octets` of such columns, each an instruction of its own.
///
/// An infinite number makes its second term NaN, and with it the sums: such a training has diverged.
template <int MatrixTerms, int OperandTerms, int ColumnTerms, int Octets = 1>
struct Bf16Operands {
  static_assert(OperandTerms == 1 || (MatrixTerms == 2 && ColumnTerms == 1));
  static constexpr int matrix_terms = MatrixTerms, operand_terms = OperandTerms, column_terms = ColumnTerms;
  /// Columns of Q a step of the product, and of B.
  static constexpr int depth = 16, octets = Octets, columns = 8 * Octets;
  /// Sequences of a cluster at most, and those of which a lane has the sums: columns 2 l and 2 l + 1 of each
  /// octet.
  static constexpr int most_sequences = columns / ColumnTerms, octet_sequences = 8 / ColumnTerms,
                       lane_octet_sequences = 2 / ColumnTerms, lane_sequences = Octets * lane_octet_sequences;

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

  /// What is exchanged of a lane's sequences in an octet, which begin at `x`, as operand `term`.
  static __device__ __forceinline__ __nv_bfloat162 split(const float* x, int term) {
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
  /// Both registers of B, of each term: numbers 4 l .. 4 l + 3 of a column, which begin at `x`.
  struct State {
    unsigned terms[OperandTerms][2];

    __device__ __forceinline__ void load(const __nv_bfloat16* x) {
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

/// How the warps of a block share a unit, and the shared memory of the block. Each warp finishes eight rows
/// of a unit. Of 64 or 96 rows, a warp multiplies 32, two fragments of 16, by one of four parts of the
/// columns: with 64, warp w has rows 32 (w % 2) .. + 31 and part w / 2, with 96 rows 32 (w % 3) .. + 31 and
/// part w / 3. Of 80 rows, it multiplies rows 16 (w % 5) .. + 15 by part w / 5 of two. Warps with the same
/// rows meet in shared memory, where each finishes those that come first in its own fragments.
///
/// N is at most `Columns`. Where the cluster has more rows, the last ones are padding.
template <class OperandsType, int Blocks, int Units, int UnitRows, int Columns>
struct TensorCoreShape {
  using Operands = OperandsType;
  static constexpr int blocks = Blocks, units = Units, unit_rows = UnitRows;
  static_assert(UnitRows == 64 || UnitRows == 80 || UnitRows == 96);
  /// Fragments of 16 rows that a warp has of a unit, warps that have all of its rows, and parts of the
  /// columns: a warp finishes one octet of its rows.
  static constexpr int row_fragments = UnitRows == 80 ? 1 : 2, row_warps = UnitRows / (16 * row_fragments),
                       parts = 2 * row_fragments;
  static constexpr unsigned threads = parts * row_warps * warp_size;
  static constexpr int block_rows = Units * UnitRows, rows = Blocks * block_rows;
  /// The last part may have fewer.
  static constexpr int part_columns =
      (Columns + parts * Operands::depth - 1) / (parts * Operands::depth) * Operands::depth;
  /// Steps of the product.
  static constexpr int depths = part_columns / Operands::depth;
  /// Operands of Q that a thread has of a unit, four registers each. Of 255 registers a thread, or 168 with
  /// ten or twelve warps, 128 are for Q. Where two units do not fit, the second is kept in shared memory.
  static constexpr int unit_operands = row_fragments * depths * Operands::matrix_terms;
  static constexpr int register_units = Units * unit_operands * 4 > 128 ? 1 : Units;
  static_assert(register_units * unit_operands * 4 <= 128);
  static constexpr int shared_operands = (Units - register_units) * unit_operands;
  /// Elements that a thread finishes: a row of each unit, of its lane's sequences.
  static constexpr int owned = Units * Operands::lane_sequences;
  /// At least four sums take turns, so that an instruction need not wait for the one before it. With 64 rows
  /// eight took 2 % longer in all: mma.sync keeps its tensor core for eight cycles, and there are two warps
  /// for each. Where twelve warps have more than 96 registers for Q, the two of their fragments take less
  /// time: four spill.
  static constexpr int chains = UnitRows == 96 && unit_operands * 4 > 96
                                    ? 1
                                    : std::max(1, 4 / (row_fragments * Units * Operands::octets));

  /// Whether a state has one bfloat16 for each number.
  static constexpr bool has_short_state = Operands::operand_terms * Operands::column_terms == 1;
  using Exchange = std::conditional_t<has_short_state, ColumnsByBlock<Operands, Blocks, Units, UnitRows>,
                                      ColumnsByWarp<Operands, Blocks, Units, UnitRows>>;
  static constexpr std::size_t weight_bytes = shared_operands * sizeof(uint4) * threads;
  /// Sums for others: each warp has some for each of the others with its rows. When operands are loaded, they
  /// pass through the same memory.
  static constexpr std::size_t sum_bytes =
      std::max(owned * (parts - 1) * threads * sizeof(float), sizeof(uint4) * threads);
  static constexpr std::size_t shared_bytes = weight_bytes + Exchange::shared_bytes + sum_bytes;
  static_assert(shared_bytes <= cluster_shared_memory);
  static_assert(block_rows % Operands::depth == 0, "the columns of a step of the product are of one block");
  static_assert(Columns <= rows && (parts - 1) * part_columns < rows);
  static_assert(Blocks <= parts * row_warps + 1, "a warp for each block that is sent to");
};

/// Where a thread stands in its block.
template <class Shape>
struct TensorCorePlace {
  int lane = static_cast<int>(threadIdx.x % warp_size), warp = static_cast<int>(threadIdx.x / warp_size);
  /// Of fragments: lane = 4 g + l.
  int g = lane / 4, l = lane % 4;
  /// The warp's first row in a unit, and its part of the columns.
  int warp_row = warp % Shape::row_warps * 16 * Shape::row_fragments, part = warp / Shape::row_warps;

  /// The row in its unit whose elements this thread finishes.
  __device__ int own_row() const { return warp_row + part * 8 + g; }
  /// Of element i that this thread finishes: its row in the block, and its sequence in the cluster.
  __device__ int row_of(int i) const {
    return i / Shape::Operands::lane_sequences * Shape::unit_rows + own_row();
  }
  __device__ int sequence_of(int i) const {
    using Operands = typename Shape::Operands;
    constexpr int of_lane = Operands::lane_octet_sequences;
    const int octet = i % Operands::lane_sequences / of_lane;
    return octet * Operands::octet_sequences + of_lane * l + i % of_lane;
  }
  /// Row r of a fragment. Fragments begin with the eight rows that this warp finishes.
  __device__ int fragment_row(int fragment, int r) const {
    const int row_octet = (fragment * 2 + r / 8 + part) % Shape::parts;
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
        return read(unit * Shape::unit_rows + place.fragment_row(fragment, r),
                    place.part * Shape::part_columns + k * Operands::depth + c);
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
  static constexpr int threads = static_cast<int>(Shape::threads);

  unsigned registers_[Shape::register_units][Shape::row_fragments][Shape::depths][Operands::matrix_terms][4];
  uint4* shared_ = nullptr;
};

/// The sums of one warp: its rows by its part of the columns, of all sequences.
template <class Shape>
class WarpSums {
  using Operands = typename Shape::Operands;
  using Exchange = typename Shape::Exchange;

 public:
  /// From the state of a step. Of a sequence that is none, a column of the state holds anything; it reaches
  /// that column of the sums alone, and an absent element drops it.
  __device__ __forceinline__ WarpSums(const TensorCorePlace<Shape>& place,
                                      const TensorCoreWeights<Shape>& weights, const Exchange& exchange,
                                      int step) {
#pragma unroll
    for (int k = 0; k < Shape::depths; ++k) {
      const __nv_bfloat16* const state = exchange.rows(step, column_of(place.part, k));
      typename Operands::State x[Operands::octets];
#pragma unroll
      for (int octet = 0; octet < Operands::octets; ++octet)
        x[octet].load(state + Exchange::offset(8 * octet + place.g, place.l));
      multiply_add(weights, k, x);
    }
  }
  /// Those of a lane's sequences in row g of an octet, in the order of the fragments.
  struct alignas(std::min(16, 4 * Operands::lane_sequences)) LaneSums {
    float values[Operands::lane_sequences];
  };
  __device__ __forceinline__ LaneSums of(int unit, int row_octet) const {
    LaneSums x{};
#pragma unroll
    for (int i = 0; i < 2 * Operands::octets; ++i) {
#pragma unroll
      for (int chain = 0; chain < Shape::chains; ++chain) {
        x.values[i / Operands::column_terms] +=
            sums_[unit][row_octet / 2][i / 2][chain][row_octet % 2 * 2 + i % 2];
      }
    }
    return x;
  }

 private:
  /// The first column of a step of the product. Where the last part has fewer steps than others, it has its
  /// last columns again, for which Q is 0.
  static __device__ __forceinline__ int column_of(int part, int k) {
    const int column = part * Shape::part_columns + k * Operands::depth;
    constexpr int last = Shape::rows - Operands::depth;
    return (Shape::parts - 1) * Shape::part_columns + k * Operands::depth > last ? std::min(column, last)
                                                                                 : column;
  }
  /// Sums that do not wait for one another come one after another.
  __device__ __forceinline__ void multiply_add(const TensorCoreWeights<Shape>& weights, int k,
                                               const typename Operands::State (&x)[Operands::octets]) {
#pragma unroll
    for (int product = 0; product < Operands::products; ++product) {
      const int chain = (k * Operands::products + product) % Shape::chains;
#pragma unroll
      for (int fragment = 0; fragment < Shape::row_fragments; ++fragment) {
#pragma unroll
        for (int unit = 0; unit < Shape::units; ++unit) {
#pragma unroll
          for (int octet = 0; octet < Operands::octets; ++octet) {
            weights.multiply_add(sums_[unit][fragment][octet][chain], unit, fragment, k,
                                 Operands::matrix_term(product),
                                 x[octet].terms[Operands::operand_term(product)]);
          }
        }
      }
    }
  }

  float sums_[Shape::units][Shape::row_fragments][Operands::octets][Shape::chains][4] = {};
};

/// products = the sums of this thread's elements over the warps of its rows, by way of `memory`, which
/// is shared. Everyone must have read what was there before. So it is: a step of the recurrence lies between.
/// Each lane arrives in `commit` after it has read (ColumnsByWarp), or `commit` has a barrier of the block
/// (ColumnsByBlock).
template <class Shape>
__device__ __forceinline__ void add_over_warps(const TensorCorePlace<Shape>& place,
                                               const WarpSums<Shape>& sums, float* memory,
                                               float (&products)[Shape::owned]) {
  using LaneSums = typename WarpSums<Shape>::LaneSums;
  constexpr int parts = Shape::parts, row_warps = Shape::row_warps;
  constexpr int sequences = Shape::Operands::lane_sequences;
  /// Where a warp finds what the one `number` + 1 parts before it has for it.
  const auto slot = [&](int unit, int number, int of_warp) {
    return reinterpret_cast<LaneSums*>(memory) +
           ((unit * (parts - 1) + number) * static_cast<int>(Shape::threads) +
            of_warp * static_cast<int>(warp_size) + place.lane);
  };
#pragma unroll
  for (int unit = 0; unit < Shape::units; ++unit) {
#pragma unroll
    for (int i = 1; i < parts; ++i) {
      const int of_warp = place.warp % row_warps + (place.part + i) % parts * row_warps;
      *slot(unit, i - 1, of_warp) = sums.of(unit, i);
    }
  }
  __syncthreads();
#pragma unroll
  for (int unit = 0; unit < Shape::units; ++unit) {
    LaneSums sum = sums.of(unit, 0);
#pragma unroll
    for (int number = 0; number < parts - 1; ++number) {
      const LaneSums x = *slot(unit, number, place.warp);
#pragma unroll
      for (int i = 0; i < sequences; ++i) sum.values[i] += x.values[i];
    }
#pragma unroll
    for (int i = 0; i < sequences; ++i) products[unit * sequences + i] = sum.values[i];
  }
}

}  // namespace orthornn::cuda
