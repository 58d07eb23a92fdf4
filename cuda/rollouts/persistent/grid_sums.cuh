#pragma once
// The product of a step over the grid: all rows of a block by one warp's slice of the state.

#include <algorithm>

#include "cuda/rollouts/persistent/grid_exchange.cuh"
#include "cuda/rollouts/persistent/grid_operands.cuh"

namespace orthornn::cuda {

inline constexpr int grid_set_threads = grid_slices * 32;

/// A block of `UnitTiles` times 16 units, with a row for each of their `Gates`, and `Sets` sets of
/// `SequenceTiles` times 8 sequences. A step publishes `Published` numbers of a unit.
template <int Terms, int Gates, int UnitTiles, int SequenceTiles, int Sets, int Published>
struct GridShape {
  using Operands = GridOperands<Terms>;
  static constexpr int gates = Gates, unit_tiles = UnitTiles, sequence_tiles = SequenceTiles, sets = Sets,
                       published = Published;
  static constexpr int threads = Sets * grid_set_threads;
  /// Tile gate * UnitTiles + i of rows has that gate of the units of tile i.
  static constexpr int row_tiles = Gates * UnitTiles;
  static constexpr int units = 16 * UnitTiles, sequences = 8 * SequenceTiles;
  /// Operands of a chunk, 16 bytes each.
  static constexpr int chunk_operands = Operands::depths * Terms * row_tiles * 32;
  /// Chunks of the state that a lane has on the way. With more, registers are spilled.
  static constexpr int ahead = Sets == 1 ? 8 / SequenceTiles : std::max(2, 4 / SequenceTiles);
  /// An item is a lane's sums of one unit and two sequences. Item i belongs to warp i % 8.
  static constexpr int items = UnitTiles * SequenceTiles * 2;
  static constexpr int own_items = (items + grid_slices - 1) / grid_slices;
  static constexpr int own = 2 * own_items;
  static constexpr std::size_t sum_bytes = sizeof(float2) * items * Gates * (grid_slices - 1) * 32;

  static constexpr std::size_t shared_bytes(int resident) {
    return Sets * sum_bytes + sizeof(uint4) * grid_slices * resident * chunk_operands;
  }
};

/// The first chunk of a slice; slices differ by one chunk at most.
__host__ __device__ constexpr int first_chunk(int chunks, int slice) { return chunks * slice / grid_slices; }

/// The sums of one warp: all rows of the block by its slice of the columns.
template <class Shape>
class GridSums {
  using Operands = typename Shape::Operands;
  static constexpr int terms = Operands::terms;

 public:
  /// Starts to read. `state` is this lane's part of the slice's first chunk in the first tile, `count` the
  /// number of chunks.
  __device__ __forceinline__ GridSums(const typename Operands::Exchanged* state, int stride, int count)
      : count_(count) {
#pragma unroll
    for (int tile = 0; tile < Shape::sequence_tiles; ++tile)
      state_[tile] = reinterpret_cast<const uint4*>(state + tile * 8 * stride);
#pragma unroll
    for (int slot = 0; slot < Shape::ahead; ++slot) {
      if (slot < count) fetch(slot, slot);
    }
    if (count == 0) return;
    // All blocks publish at about the same time. Until the first numbers have come, nothing else is asked
    // for: questions without an answer would take the way to the cache from other sets.
    Watchdog watchdog;
    while (!__all_sync(whole_warp, is_written(ring_[0][0]))) {
      watchdog.look();
      ring_[0][0] = load_words(state_[0]);
    }
#pragma unroll
    for (int slot = 0; slot < Shape::ahead; ++slot) {
      if (slot < count && !has_come(slot)) fetch(slot, slot);
    }
  }
  /// `resident` are this lane's operands of the slice's first `resident_count` chunks, `others` those of all
  /// in global memory.
  __device__ __forceinline__ void multiply(const uint4* resident, int resident_count, const uint4* others) {
    for (int first = 0; first < count_; first += Shape::ahead) {
#pragma unroll
      for (int slot = 0; slot < Shape::ahead; ++slot) {
        if (first + slot >= count_) break;
        wait_for(slot);
        // One pointer for both memories: with a branch for each, the compiler multiplied in both, with
        // predicates.
        add(ring_[slot], (first + slot < resident_count ? resident : others) + slot * Shape::chunk_operands);
        if (first + slot + Shape::ahead < count_) fetch(slot, slot + Shape::ahead);
      }
      resident += Shape::ahead * Shape::chunk_operands;
      others += Shape::ahead * Shape::chunk_operands;
#pragma unroll
      for (int tile = 0; tile < Shape::sequence_tiles; ++tile) state_[tile] += Shape::ahead * chunk_loads;
    }
  }
  /// A gate of item i.
  __device__ __forceinline__ float2 of(int i, int gate) const {
    const int row_tile = gate * Shape::unit_tiles + i / 2 % Shape::unit_tiles,
              tile = i / 2 / Shape::unit_tiles;
    const float* x = sums_[row_tile][tile] + i % 2 * 2;
    float2 sum{x[0], x[1]};
    if constexpr (exact) {
      const float* low = low_[row_tile][tile] + i % 2 * 2;
      sum.x += low[0], sum.y += low[1];
    }
    return sum;
  }

 private:
  /// Tensor cores cut off the bits that a sum cannot hold, which makes states shorter step by step. With
  /// three terms, the products of the first terms are added outside.
  static constexpr bool exact = terms == 3;

  /// From one chunk to the next.
  static constexpr int chunk_loads = Operands::chunk / Operands::lane_numbers;

  __device__ __forceinline__ void fetch(int slot, int chunk) {
#pragma unroll
    for (int tile = 0; tile < Shape::sequence_tiles; ++tile)
      ring_[slot][tile] = load_words(state_[tile] + chunk * chunk_loads);
  }
  __device__ __forceinline__ bool has_come(int slot) const {
    unsigned largest = 0;
#pragma unroll
    for (int tile = 0; tile < Shape::sequence_tiles; ++tile)
      largest = max(largest, largest_word(ring_[slot][tile]));
    return largest != unwritten;
  }
  __device__ __forceinline__ void wait_for(int slot) {
    Watchdog watchdog;
    while (!__all_sync(whole_warp, has_come(slot))) {
      watchdog.look();
      fetch(slot, slot);
    }
  }
  /// `operands` are this lane's of the chunk.
  __device__ __forceinline__ void add(const uint4 (&loaded)[Shape::sequence_tiles], const uint4* operands) {
    typename Operands::State x[Shape::sequence_tiles];
#pragma unroll
    for (int tile = 0; tile < Shape::sequence_tiles; ++tile) x[tile].take(loaded[tile]);
#pragma unroll
    for (int depth = 0; depth < Operands::depths; ++depth) {
#pragma unroll
      for (int m = 0; m < terms; ++m) {
#pragma unroll
        for (int row_tile = 0; row_tile < Shape::row_tiles; ++row_tile) {
          const uint4 a = operands[((depth * terms + m) * Shape::row_tiles + row_tile) * 32];
          const unsigned left[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
          for (int tile = 0; tile < Shape::sequence_tiles; ++tile) {
#pragma unroll
            for (int term = 0; term + m < terms; ++term)
              add_product(row_tile, tile, m + term, left, x[tile].registers[depth][term]);
          }
        }
      }
    }
  }
  __device__ __forceinline__ void add_product(int row_tile, int tile, int order, const unsigned (&left)[4],
                                              const unsigned (&right)[2]) {
    float(&sums)[4] = sums_[row_tile][tile];
    if constexpr (exact) {
      if (order > 0) return ptx::mma_m16n8k16_bf16(low_[row_tile][tile], left, right);
      float product[4] = {};
      ptx::mma_m16n8k16_bf16(product, left, right);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] += product[i];
    } else {
      ptx::mma_m16n8k16_bf16(sums, left, right);
    }
  }

  const uint4* state_[Shape::sequence_tiles];
  int count_;
  uint4 ring_[Shape::ahead][Shape::sequence_tiles];
  float sums_[Shape::row_tiles][Shape::sequence_tiles][4] = {};
  float low_[exact ? Shape::row_tiles : 1][exact ? Shape::sequence_tiles : 1][4] = {};
};

}  // namespace orthornn::cuda
