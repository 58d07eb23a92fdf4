#pragma once
// Long sequences of few heads would leave most of a GPU idle, so a sequence is cut into segments that are
// done at once.
//
// A segment maps the transposed state [V, K] before it to the one after it: S' = S W + N. A row of W is what
// the segment makes of a row of the identity without values; N is what it makes of zeros. So:
//
//   1. advance_chunks with `maps`: N of every segment but the last, W of those between the first and the
//   last.
//      The first segment begins with the initial state, so its N is the state after it. It also copies that
//      state: the third kernel may write final states over the initial ones.
//   2. join_segments: the states before all segments, one after another
//   3. advance_chunks: outputs of all segments at once
//
// Gradients go back likewise: d = d' W^T + N', with the W that the forward has kept. Nothing is truncated.
// Results differ from those of the whole sequence by rounding alone, but in their bits.

#include "cuda/delta/chunk_stages.cuh"
#include "cuda/delta/triangular_inverse.cuh"

namespace orthornn::cuda {

__device__ __forceinline__ bool needs_map(const ChunkSegment& segment, bool of_matrix) {
  return !segment.is_last() && !(of_matrix && segment.number == 0);
}
__device__ __forceinline__ Index segment_place(const ChunkSegment& segment, int number) {
  return segment.head_place() * segment.sizes.segments + number;
}
/// Of the state before (in a backward: after) segment `number`.
__device__ __forceinline__ Index segment_state_place(const ChunkSegment& segment, int padded_key,
                                                     int number) {
  return segment_place(segment, number) * segment.sizes.padded_value * padded_key;
}
__device__ __forceinline__ Index segment_map_place(const ChunkSegment& segment, int padded_key) {
  return segment_place(segment, segment.number) * padded_key * map_pitch(padded_key);
}

/// Rows `row` and `row` + 8 of a matrix.
template <int tiles>
__device__ __forceinline__ void store_rows(const Rows<tiles>& rows, float* matrix, Index row, int pitch) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      *reinterpret_cast<float2*>(matrix + (row + 8 * i) * pitch + 8 * j + lane_column()) =
          make_float2(rows.tile[j][2 * i], rows.tile[j][2 * i + 1]);
  }
}
template <int tiles>
__device__ __forceinline__ void load_segment_state(Rows<tiles>& rows, const float* state, Index row,
                                                   int pitch = 8 * tiles) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 two =
          *reinterpret_cast<const float2*>(state + (row + 8 * i) * pitch + 8 * j + lane_column());
      rows.tile[j][2 * i] = two.x, rows.tile[j][2 * i + 1] = two.y;
    }
  }
}
template <int tiles>
__device__ __forceinline__ void set_identity(Rows<tiles>& rows, int row) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rows.tile[j][i] = 8 * j + lane_column() + i % 2 == row + i / 2 * 8 ? 1.0F : 0.0F;
  }
}

template <int padded_key>
struct JoinSegments {
  static constexpr int threads = 128;
  /// Values of a block, all of which are rows of each warp, and columns of the results of a warp.
  static constexpr int values = 16, columns = padded_key / 4;
  static constexpr std::size_t map_bytes = sizeof(float) * padded_key * map_pitch(padded_key);
  /// Numbers from a row of a state in shared memory to the next: with these, no bank is read twice.
  static constexpr int state_pitch = padded_key + 8;
  static constexpr std::size_t state_bytes = sizeof(float) * values * state_pitch;
  /// Two maps, one of which is loaded while the other one is read, and a barrier for each; two states, one of
  /// which is written while the other one is read.
  static constexpr std::size_t barrier_bytes = 16, shared = barrier_bytes + 2 * (map_bytes + state_bytes);
};

/// next += state W, or state W^T with `backward`, of the warp's columns from `first_column` on.
template <int padded_key, bool backward>
__device__ __forceinline__ void add_mapped(Rows<JoinSegments<padded_key>::columns / 8>& next,
                                           const Rows<padded_key / 8>& state, const float* map,
                                           int first_column) {
  constexpr int columns = JoinSegments<padded_key>::columns, pitch = map_pitch(padded_key);
#pragma unroll
  for (int k = 0; k < padded_key; k += 16) {
    const auto left = FloatProduct<true>::left(state.tile[k / 8], state.tile[k / 8 + 1]);
#pragma unroll
    for (int n = 0; n < columns; n += 16) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Numbers k + lane_column + {0, 1, 8, 9} of column n + 8 half + lane_row of the warp's columns.
        const int row = k + lane_column(), column = first_column + n + 8 * half + lane_row();
        SplitProduct::Right right;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = row + i % 2 + i / 2 * 8;
          right.part[i] = backward ? map[column * pitch + r] : map[r * pitch + column];
        }
        SplitProduct::multiply(next.tile[n / 8 + half], left, right);
      }
    }
  }
}

/// states[g + 1] <- states[g] W_g + states[g + 1] for the segments between the first and the last; with
/// `backward`, states[g - 1] <- states[g] W_g^T + states[g - 1], from the last to the first. A block has 16
/// values of one head of one sequence, a warp a quarter of the columns of the results, and the warps exchange
/// these after each segment. So a segment takes a warp a quarter of the time that 16 values with all columns
/// take, and four times the multiprocessors take part.
template <int padded_key, bool backward>
__global__ __launch_bounds__(128) void join_segments(ChunkSizes sizes, const float* maps, float* states) {
  using Shape = JoinSegments<padded_key>;
  constexpr int tiles = padded_key / 8, pitch = map_pitch(padded_key);
  const ChunkSegment segment(sizes, blockIdx.z * static_cast<Index>(sizes.segments),
                             static_cast<int>(blockIdx.y));
  const int joins = segment.count - 2;
  if (joins <= 0) return;
  auto* const barriers = reinterpret_cast<std::uint64_t*>(dynamic_shared_memory());
  auto* const shared = reinterpret_cast<float*>(dynamic_shared_memory() + Shape::barrier_bytes);
  float* const exchanged = shared + 2 * (padded_key * pitch);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) ptx::mbarrier_initialize(barriers + i, 1);
    ptx::mbarrier_fence_initialization();
  }
  __syncthreads();
  const auto number = [&](int join) { return backward ? segment.count - 2 - join : join + 1; };
  const auto load = [&](int join) {
    if (threadIdx.x > 0 || join >= joins) return;
    std::uint64_t* const barrier = barriers + join % 2;
    ptx::mbarrier_arrive_expect(barrier, Shape::map_bytes);
    ptx::copy_bulk_to_shared(shared + join % 2 * (padded_key * pitch),
                             maps + segment_place(segment, number(join)) * padded_key * pitch,
                             Shape::map_bytes, barrier);
  };
  const int value = static_cast<int>(blockIdx.x) * Shape::values + lane_row();
  const int first_column = static_cast<int>(threadIdx.x) / 32 * Shape::columns;
  const auto state_at = [&](int n) { return states + segment_state_place(segment, padded_key, n); };

  load(0);
  Rows<tiles> state;
  Rows<Shape::columns / 8> next;
  load_segment_state(state, state_at(number(0)), value);
  for (int join = 0; join < joins; ++join) {
    load(join + 1);
    const int target = number(join) + (backward ? -1 : 1);
    load_segment_state(next, state_at(target) + first_column, value, padded_key);
    ptx::mbarrier_wait(barriers + join % 2, join / 2 % 2);
    const float* const map = shared + join % 2 * (padded_key * pitch);
    add_mapped<padded_key, backward>(next, state, map, first_column);
    store_rows(next, state_at(target) + first_column, value, padded_key);
    float* const joined = exchanged + join % 2 * (Shape::values * Shape::state_pitch);
    store_rows(next, joined + first_column, lane_row(), Shape::state_pitch);
    __syncthreads();  // the map has been read, and the state is whole
    load_segment_state(state, joined, lane_row(), Shape::state_pitch);
  }
}

}  // namespace orthornn::cuda
