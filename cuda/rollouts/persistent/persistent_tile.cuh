#pragma once
// How the threads of a block share the product of a step: what of Q and of the state each has, and which of
// the sums it is left with.

#include "cuda/core/reduce_scatter.cuh"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {

/// How the threads of a block share its rows of Q. A thread keeps Rows rows by Columns columns in registers;
/// `Lanes` neighbouring lanes have all columns of the same rows. So every number of the state that is read
/// from shared memory serves Rows multiplications. With 8 rows there are half the reads of 4, and a load of
/// 16 bytes keeps the multiprocessor four cycles, however many lanes want the same: that is faster where a
/// cluster has several sequences. With 4 rows the sums over lanes are shorter, which is faster for one.
template <int LaneCount, int ColumnCount, int RowCount = 8>
struct PersistentTile {
  static constexpr int row_count = RowCount;
  static constexpr int lanes = LaneCount;
  static constexpr int columns = ColumnCount;
  /// N, padded.
  static constexpr int size = lanes * columns;
  /// Columns come in pieces of four, two or one, neighbours and one load each, dealt to the lanes in turn.
  static constexpr int piece = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  static constexpr int pieces = columns / piece;

  static constexpr int threads(int rows) { return rows / row_count * lanes; }
  /// Of this thread: its lane, and the first of its rows in the block.
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
  static __device__ __forceinline__ int first_row() {
    return static_cast<int>(threadIdx.x) / lanes * row_count;
  }
  /// Neighbouring lanes that are left with the sums of one row.
  static constexpr int lanes_of_row = lanes / row_count;
  static_assert(lanes % row_count == 0 && (row_count & (row_count - 1)) == 0);
  /// That row, of this thread's.
  static __device__ __forceinline__ int own_row() { return lane() / lanes_of_row; }
  static __device__ __forceinline__ int column(int i, int lane) {
    return (i / piece * lanes + lane) * piece + i % piece;
  }
};

/// This thread's columns of a sequence's state.
template <class Tile>
struct StateColumns {
  struct alignas(sizeof(float) * Tile::piece) Piece {
    float x[Tile::piece];
  };
  Piece pieces[Tile::pieces];

  template <class Exchange>
  __device__ __forceinline__ void read(const Exchange& exchange, int step, int sequence) {
#pragma unroll
    for (int piece = 0; piece < Tile::pieces; ++piece) {
      const float* const column = exchange.columns(step, Tile::column(piece * Tile::piece, Tile::lane()));
      pieces[piece] = *reinterpret_cast<const Piece*>(column + Exchange::offset(0, sequence));
    }
  }
};

/// This thread's rows and columns of Q (of Q^T backward), which stay in its registers through all steps. Row
/// r there is row r ^ own_row() of the thread's. So when two lanes divide their sums, each keeps those in
/// its lower registers and gives those in its upper ones. No lane has to choose.
template <Direction direction, class Tile>
class PersistentWeights {
 public:
  /// `first_row` is that of the block.
  __device__ __forceinline__ PersistentWeights(const float* q, Index n, Index first_row) {
    constexpr bool forward = direction == Direction::forward;
#pragma unroll
    for (int r = 0; r < Tile::row_count; ++r) {
#pragma unroll
      for (int i = 0; i < Tile::columns; ++i) {
        const Index row = first_row + Tile::first_row() + (r ^ Tile::own_row());
        const Index column = Tile::column(i, Tile::lane());
        weights_[r][i] = row < n && column < n ? (forward ? q[row * n + column] : q[column * n + row]) : 0.0f;
      }
    }
  }

  /// sums[r] = the product of row r ^ own_row() with a state, over this thread's columns.
  __device__ __forceinline__ void multiply(const StateColumns<Tile>& state, float* sums) const {
#pragma unroll
    for (int r = 0; r < Tile::row_count; ++r) sums[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < Tile::columns; ++i) {
      const float x = state.pieces[i / Tile::piece].x[i % Tile::piece];
#pragma unroll
      for (int r = 0; r < Tile::row_count; ++r) sums[r] = fmaf(weights_[r][i], x, sums[r]);
    }
  }

 private:
  float weights_[Tile::row_count][Tile::columns];
};

/// The elements of a group that a thread owns once the sums over lanes are dealt. Of lanes that are left with
/// the same sum, the first owns it, or, where elements are `shared`, each.
template <class Tile, int Group, bool shared = false>
class OwnedElements {
  using Reduce = ReduceScatter<Group, Tile::lanes_of_row>;

 public:
  /// Number of elements that a thread owns at most.
  static constexpr int count = Reduce::left;
  /// Neighbouring lanes that are left with the same sums.
  static constexpr int copies = Reduce::copies;
  static_assert(Reduce::copies == 1 || count == 1);

  __device__ __forceinline__ bool exists(int i) const { return i < number_; }
  /// Row of the block.
  __device__ __forceinline__ int row() const { return Tile::first_row() + Tile::own_row(); }
  /// Sequence of the group, of an element that exists.
  __device__ __forceinline__ int sequence(int i) const { return first_ + i; }
  /// sums [Group][rows] -> their sums over the lanes, of which those of this thread come first.
  __device__ __forceinline__ void add_over_lanes(float (&sums)[Tile::row_count * Group]) const {
    constexpr int rows = Tile::row_count;
#pragma unroll
    for (int half = rows / 2; half > 0; half /= 2) {
#pragma unroll
      for (int s = 0; s < Group; ++s) {
#pragma unroll
        for (int r = 0; r < half; ++r) {
          sums[s * rows + r] +=
              __shfl_xor_sync(whole_warp, sums[s * rows + half + r], half * Tile::lanes_of_row);
        }
      }
    }
#pragma unroll
    for (int s = 1; s < Group; ++s) sums[s] = sums[s * rows];
    Reduce::run(sums, Tile::lane());
  }

 private:
  int first_ = Reduce::first(Tile::lane());
  int number_ = shared || Tile::lane() % Reduce::copies == 0 ? Reduce::number(Tile::lane()) : 0;
};

}  // namespace orthornn::cuda
