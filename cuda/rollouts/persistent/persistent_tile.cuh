#pragma once
// How the threads of a block share the product of a step: what of Q and of the state each has, and which of
// the sums it is left with.

#include <numeric>

#include "cuda/core/reduce_scatter.cuh"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {

/// How the threads of a block share its rows of Q. A thread keeps Rows rows by Columns columns in registers;
/// `Lanes` neighbouring lanes have all columns of the same rows. So every number of the state that is read
/// from shared memory serves Rows multiplications. With 8 rows there are half the reads of 4, and a load of
/// 16 bytes keeps the multiprocessor four cycles, however many lanes want the same: that is faster where a
/// cluster has several sequences. With 4 rows the sums over lanes are shorter, which is faster for one.
///
/// Where registers have no room for all columns, the first `KeptColumns` are there, and the others in shared
/// memory. A step then reads those once for all sequences of a group.
template <int LaneCount, int ColumnCount, int RowCount = 8, int KeptColumns = ColumnCount>
struct PersistentTile {
  static constexpr int row_count = RowCount;
  static constexpr int lanes = LaneCount;
  static constexpr int columns = ColumnCount;
  /// N, padded.
  static constexpr int size = lanes * columns;
  /// Columns come in pieces of four, two or one, neighbours and one load each, dealt to the lanes in turn.
  static constexpr int divisor = std::gcd(columns, KeptColumns);
  static constexpr int piece = divisor % 4 == 0 ? 4 : divisor % 2 == 0 ? 2 : 1;
  static constexpr int kept_pieces = KeptColumns / piece, shared_pieces = columns / piece - kept_pieces;
  static_assert(shared_pieces >= 0);

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

/// Numbers of neighbouring columns.
template <class Tile>
struct alignas(sizeof(float) * Tile::piece) ColumnPiece {
  float x[Tile::piece];

  /// Of a sequence's state.
  template <class Exchange>
  static __device__ __forceinline__ ColumnPiece read(const Exchange& exchange, int step, int piece,
                                                     int sequence) {
    const float* const column = exchange.columns(step, Tile::column(piece * Tile::piece, Tile::lane()));
    return *reinterpret_cast<const ColumnPiece*>(column + Exchange::offset(0, sequence));
  }
};

/// Those of this thread's columns of a sequence's state that are multiplied by numbers in registers.
template <class Tile>
struct StateColumns {
  ColumnPiece<Tile> pieces[Tile::kept_pieces];

  template <class Exchange>
  __device__ __forceinline__ void read(const Exchange& exchange, int step, int sequence) {
#pragma unroll
    for (int i = 0; i < Tile::kept_pieces; ++i)
      pieces[i] = ColumnPiece<Tile>::read(exchange, step, i, sequence);
  }
};

/// This thread's rows and columns of Q (of Q^T backward), which stay on the multiprocessor through all steps.
/// Row r there is row r ^ own_row() of the thread's. So when two lanes divide their sums, each keeps those in
/// its lower registers and gives those in its upper ones. No lane has to choose.
template <Direction direction, class Tile, int Threads>
class PersistentWeights {
  using Piece = ColumnPiece<Tile>;
  static constexpr int rows = Tile::row_count;

 public:
  /// Numbers in shared memory: [shared pieces][rows][threads], each where its thread alone reads it.
  static constexpr std::size_t shared_bytes = sizeof(Piece) * Tile::shared_pieces * rows * Threads;

  /// `first_row` is that of the block. `memory` is shared and `shared_bytes` long.
  __device__ __forceinline__ PersistentWeights(const float* q, Index n, Index first_row,
                                               unsigned char* memory)
      : shared_(reinterpret_cast<Piece*>(memory) + threadIdx.x) {
    const auto row = [&](int r) { return first_row + Tile::first_row() + (r ^ Tile::own_row()); };
    // First, while registers are free.
#pragma unroll 1
    for (int i = 0; i < Tile::shared_pieces; ++i) {
#pragma unroll
      for (int r = 0; r < rows; ++r)
        shared_[(i * rows + r) * Threads] = load(q, n, row(r), Tile::kept_pieces + i);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int i = 0; i < Tile::kept_pieces; ++i) kept_[r][i] = load(q, n, row(r), i);
    }
  }

  /// sums[r] = the product of row r ^ own_row() with a state, over this thread's columns in registers.
  __device__ __forceinline__ void multiply(const StateColumns<Tile>& state, float* sums) const {
#pragma unroll
    for (int r = 0; r < rows; ++r) sums[r] = 0.0f;
#pragma unroll
    for (int i = 0; i < Tile::kept_pieces; ++i) {
      add_products([&](int r) -> const Piece& { return kept_[r][i]; }, state.pieces[i], sums);
    }
  }
  /// Adds to sums [Group][rows] the products over the columns in shared memory.
  template <int Group, class Exchange>
  __device__ __forceinline__ void add_shared(const Exchange& exchange, int step, float* sums) const {
    // Two turns that are unrolled need more registers than there are.
#pragma unroll 1
    for (int i = 0; i < Tile::shared_pieces; ++i) {
      Piece weights[rows];
#pragma unroll
      for (int r = 0; r < rows; ++r) weights[r] = shared_[(i * rows + r) * Threads];
#pragma unroll
      for (int s = 0; s < Group; ++s) {
        const Piece state = Piece::read(exchange, step, Tile::kept_pieces + i, s);
        add_products([&](int r) -> const Piece& { return weights[r]; }, state, sums + s * rows);
      }
    }
  }

 private:
  static __device__ __forceinline__ Piece load(const float* q, Index n, Index row, int piece) {
    Piece loaded;
#pragma unroll
    for (int i = 0; i < Tile::piece; ++i) {
      const Index column = Tile::column(piece * Tile::piece + i, Tile::lane());
      const Index at = direction == Direction::forward ? row * n + column : column * n + row;
      loaded.x[i] = row < n && column < n ? q[at] : 0.0f;
    }
    return loaded;
  }
  /// weights(r) are those of row r.
  template <class Weights>
  static __device__ __forceinline__ void add_products(const Weights& weights, const Piece& state,
                                                      float* sums) {
#pragma unroll
    for (int i = 0; i < Tile::piece; ++i) {
#pragma unroll
      for (int r = 0; r < rows; ++r) sums[r] = fmaf(weights(r).x[i], state.x[i], sums[r]);
    }
  }

  Piece kept_[rows][Tile::kept_pieces];
  Piece* shared_;
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
