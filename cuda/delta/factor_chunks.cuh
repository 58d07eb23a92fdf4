#pragma once
// Chunks of factors I + q k^T on a GPU: what a chain of them (rank_one_chain.cu) and position scores
// (position_scores.cu), whose factors are I - beta w w^T, share.
//
// A chunk has C factors, and C is at most 32: one warp inverts its coupling, a column in each lane. Matrices
// of a chunk always have C rows, where the last chunk of a sequence has zeros. So all loops have the same
// bounds.
//
// A block multiplies matrices in shared memory. Rows that neighbouring lanes read have an odd stride, for
// then they lie in different banks.

#include <algorithm>
#include <string>

#include "cuda/core/kernel.cuh"
#include "cuda/core/launch.hpp"
#include "cuda/delta/token_sequence.cuh"
#include "orthornn/core/error.hpp"
#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn::cuda::factors {

inline constexpr int threads = 256;
inline constexpr int most_factors = 32;
/// Numbers of a vector that kernels which sum over states have in shared memory at a time.
inline constexpr int slice = 64;
inline constexpr int slice_stride = slice + 1;

/// Of a row in shared memory that neighbouring lanes read at the same place.
__host__ __device__ constexpr int odd(int size) { return size | 1; }

/// Chunks of all heads of all sequences.
struct Chunks {
  TokenTable sequences;
  Index heads;  // H
  int size;     // D
  int factors;  // C
  /// Of the longest sequence.
  Index most;

  /// Without the sequences.
  Chunks(const TokenLayout& layout, Index head_count, Index vector_size, int chunk)
      : sequences{},
        heads(head_count),
        size(static_cast<int>(vector_size)),
        factors(chunk),
        most((layout.longest() + chunk - 1) / chunk) {}
};

/// No two chunks have the same number below this. Those of sequence b begin with number
/// (tokens of the sequences before) / C + b.
inline Index count_numbers(const TokenLayout& layout, int factors) {
  return layout.tokens() / factors + layout.size();
}

/// One head of one sequence.
struct Head {
  const Chunks& chunks;
  TokenSequence sequence;
  /// The number of this sequence and head among all.
  Index pair, head;
  Index first_number;

  __device__ __forceinline__ Head(const Chunks& all, Index i)
      : chunks(all),
        sequence(sequence_of(all.sequences, i / all.heads)),
        pair(i),
        head(i % all.heads),
        first_number(sequence.before / all.factors + i / all.heads) {}

  __device__ __forceinline__ Index count() const {
    return (sequence.count + chunks.factors - 1) / chunks.factors;
  }
  /// Factors of a chunk.
  __device__ __forceinline__ int rows(Index chunk) const {
    return static_cast<int>(min(sequence.count - chunk * chunks.factors, static_cast<Index>(chunks.factors)));
  }
  /// The number of a factor's vector in a tensor [R, H, ..].
  __device__ __forceinline__ Index place(Index chunk, int row) const {
    return sequence.row(chunk * chunks.factors + row) * chunks.heads + head;
  }
  /// The number of a matrix in a tensor [numbers, H, .., ..].
  __device__ __forceinline__ Index slot(Index chunk) const {
    return (first_number + chunk) * chunks.heads + head;
  }
};

/// Vectors [R, H, D] times scales [R, H], which may be null, times a factor.
template <class T>
struct Vectors {
  const T* vectors;
  const T* scales;
  T factor;

  __device__ __forceinline__ T scale(Index place) const {
    return scales == nullptr ? factor : factor * scales[place];
  }
};

/// A matrix in shared memory, and what `multiply` reads of one and does with one.
template <class T>
struct SharedMatrix {
  T* data;
  int stride;

  __device__ __forceinline__ T& operator()(int i, int j) const { return data[i * stride + j]; }
  __device__ __forceinline__ auto transposed() const {
    return [m = *this](int i, int j) { return m(j, i); };
  }
  __device__ __forceinline__ auto put() const {
    return [m = *this](int i, int j, T x) { m(i, j) = x; };
  }
  __device__ __forceinline__ auto add() const {
    return [m = *this](int i, int j, T x) { m(i, j) += x; };
  }
};

/// Matrices in dynamic shared memory, one after another.
template <class T>
class SharedMatrices {
 public:
  __device__ __forceinline__ SharedMatrix<T> take(int rows, int stride) {
    T* const matrix = next_;
    next_ += rows * stride;
    return {matrix, stride};
  }
  __device__ __forceinline__ T* take_numbers(int count) { return take(count, 1).data; }

 private:
  T* next_ = reinterpret_cast<T*>(dynamic_shared_memory());
};

/// Calls put(i, j, sum over k of a(i, k) b(k, j)) for all entries of a rows x columns matrix. Each thread
/// has tiles of R x S entries, the same ones in each call for the same sizes: so what it puts in one call it
/// may read in the next one, without a barrier. Neighbouring threads have neighbouring columns. Sums are in
/// the order of k.
template <int R, int S, class T, class A, class B, class Put>
__device__ __forceinline__ void multiply(int rows, int columns, int inner, const A& a, const B& b,
                                         const Put& put) {
  const int down = (rows + R - 1) / R, across = (columns + S - 1) / S;
  for (int tile = static_cast<int>(threadIdx.x); tile < down * across; tile += static_cast<int>(blockDim.x)) {
    const int first_row = tile / across, first_column = tile % across;
    T sum[R][S] = {};
#pragma unroll 4
    for (int k = 0; k < inner; ++k) {
      T x[R], y[S];
#pragma unroll
      for (int r = 0; r < R; ++r) x[r] = a(min(first_row + r * down, rows - 1), k);
#pragma unroll
      for (int s = 0; s < S; ++s) y[s] = b(k, min(first_column + s * across, columns - 1));
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int s = 0; s < S; ++s) sum[r][s] += x[r] * y[s];
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int s = 0; s < S; ++s) {
        const int i = first_row + r * down, j = first_column + s * across;
        if (i < rows && j < columns) put(i, j, sum[r][s]);
      }
    }
  }
}

/// Calls body(row, column) for all entries of a matrix, a warp for a row.
template <class Body>
__device__ __forceinline__ void for_each_entry(int rows, int columns, const Body& body) {
  const int warps = static_cast<int>(blockDim.x / warp_size);
  for (int row = static_cast<int>(threadIdx.x / warp_size); row < rows; row += warps) {
    for (int column = static_cast<int>(threadIdx.x % warp_size); column < columns;
         column += static_cast<int>(warp_size))
      body(row, column);
  }
}

/// Loads numbers first .. first + width - 1 of the vectors of a chunk, with zeros where there are none.
template <class T>
__device__ __forceinline__ void load_vectors(SharedMatrix<T> to, const Vectors<T>& from, const Head& head,
                                             Index chunk, int first, int width) {
  const int size = head.chunks.size, rows = head.rows(chunk);
  for_each_entry(head.chunks.factors, width, [&](int row, int k) {
    T x = 0;
    if (row < rows && first + k < size) {
      const Index place = head.place(chunk, row);
      x = from.scale(place) * from.vectors[place * size + first + k];
    }
    to(row, k) = x;
  });
}

/// Loads a kept matrix [C, columns].
template <class T>
__device__ __forceinline__ void load_kept(SharedMatrix<T> to, const T* from, int rows, int columns) {
  for_each_entry(rows, columns, [&](int row, int column) { to(row, column) = from[row * columns + column]; });
}

/// What `couple` makes of each chunk.
template <class T>
struct Coupled {
  /// [numbers, H, C, C]. Entry (s, r) of the inverse of the coupling, which is -q_s . k_r for s < r, 1 for s
  /// = r, and 0 else.
  T* inverses;
  /// [numbers, H, C, C], or null. Entry (r, t) is k_r . (query of t) for r <= t, and 0 else.
  T* meetings;
};

/// A block for each chunk of each head.
template <class T>
__global__ void __launch_bounds__(threads)
    couple(Chunks chunks, Vectors<T> left, Vectors<T> right, Vectors<T> queries, Coupled<T> to) {
  const Head head(chunks, blockIdx.x / chunks.most);
  const Index chunk = blockIdx.x % chunks.most;
  if (chunk >= head.count()) return;
  const int count = chunks.factors;
  SharedMatrices<T> shared;
  const SharedMatrix<T> q = shared.take(count, slice_stride), k = shared.take(count, slice_stride),
                        coupling = shared.take(count, count);

  // result = x y^T, a slice of the vectors at a time.
  const auto products = [&](const Vectors<T>& xs, const Vectors<T>& ys, const SharedMatrix<T>& result) {
    for_each_entry(count, count, [&](int s, int r) { result(s, r) = 0; });
    for (int first = 0; first < chunks.size; first += slice) {
      const int width = min(slice, chunks.size - first);
      __syncthreads();
      load_vectors(q, xs, head, chunk, first, width);
      load_vectors(k, ys, head, chunk, first, width);
      __syncthreads();
      multiply<2, 2, T>(count, count, width, q, k.transposed(), result.add());
    }
    __syncthreads();
  };
  products(left, right, coupling);
  if (to.meetings != nullptr) {
    const SharedMatrix<T> meeting = shared.take(count, count);
    products(right, queries, meeting);
    for_each_entry(count, count, [&](int r, int t) {
      to.meetings[(head.slot(chunk) * count + r) * count + t] = r <= t ? meeting(r, t) : T{0};
    });
  }

  if (threadIdx.x >= warp_size) return;
  // Each lane solves for its column of the inverse in its registers, from the last row up, in double.
  const int lane = static_cast<int>(threadIdx.x);
  double column[most_factors];
#pragma unroll
  for (int s = 0; s < most_factors; ++s) column[s] = s == lane ? 1.0 : 0.0;
#pragma unroll
  for (int solved = most_factors - 1; solved > 0; --solved) {
    if (solved >= count) continue;
#pragma unroll
    for (int s = 0; s < most_factors; ++s) {
      if (s < solved) column[s] += static_cast<double>(coupling(s, solved)) * column[solved];
    }
  }
#pragma unroll
  for (int s = 0; s < most_factors; ++s) {
    if (s < count && lane < count)
      to.inverses[(head.slot(chunk) * count + s) * count + lane] = static_cast<T>(column[s]);
  }
}

/// Numbers in shared memory.
inline Index memory_of_couple(Index factors, bool with_meetings) {
  return 2 * factors * slice_stride + (with_meetings ? 2 : 1) * factors * factors;
}

/// The sum over the vectors' numbers first .. of x y, row by row, added to sums[row]: a warp for a row.
template <class T>
__device__ __forceinline__ void add_row_products(T* sums, int rows, int width, SharedMatrix<T> x,
                                                 SharedMatrix<T> y) {
  const int lane = static_cast<int>(threadIdx.x % warp_size);
  const int warps = static_cast<int>(blockDim.x / warp_size);
  for (int row = static_cast<int>(threadIdx.x / warp_size); row < rows; row += warps) {
    T sum = 0;
    for (int k = lane; k < width; k += static_cast<int>(warp_size)) sum += x(row, k) * y(row, k);
    sum = warp_sum(sum);
    if (lane == 0) sums[row] += sum;
  }
}

/// The largest chunk, of at most `wanted` and `most_factors`, whose kernels have room in shared memory. It
/// depends on sizes and the GPU only. Throws ValueError where there is none.
template <class T, class Memory>
int factors_of_chunk(const Context& gpu, Index wanted, Index size, const char* what,
                     const Memory& memory_of) {
  for (Index factors = std::min<Index>(wanted, most_factors); factors > 0; factors /= 2) {
    if (static_cast<std::size_t>(memory_of(factors)) * sizeof(T) <= gpu.shared_memory_per_block())
      return static_cast<int>(factors);
  }
  throw ValueError(std::string(what) + " have " + std::to_string(size) +
                   " numbers, too many for the shared memory of this GPU; run this on the CPU");
}

/// Launches kernels for the chunks of all heads.
template <class T>
class ChunkKernels {
 public:
  ChunkKernels(Device device, const TokenLayout& layout, Index heads, Index size, int factors)
      : chunks(layout, heads, size, factors),
        pairs(layout.size() * heads),
        numbers(count_numbers(layout, factors)),
        device_(device),
        layout_(layout) {}

  /// Without the sequences.
  const Chunks chunks;
  /// Heads of all sequences.
  const Index pairs;
  /// `count_numbers`.
  const Index numbers;

  /// Shape of a kept matrix for each chunk and head, [numbers, H, rows, columns].
  Shape of_chunks(Index rows, Index columns) const { return {numbers, chunks.heads, rows, columns}; }

  /// Launches `blocks` blocks with so many numbers in shared memory.
  template <class Kernel, class... Arguments>
  void launch_blocks(Kernel* kernel, Index blocks, Index shared, const Arguments&... arguments) const {
    if (blocks == 0) return;
    Chunks placed = chunks;
    placed.sequences = table_of(layout_, device_);
    launch(
        context(device_), kernel,
        {.grid = grid_size(blocks), .block = threads, .shared = static_cast<std::size_t>(shared) * sizeof(T)},
        placed, arguments...);
  }
  /// Launches a block for each chunk of each head.
  template <class Kernel, class... Arguments>
  void launch_chunks(Kernel* kernel, Index shared, const Arguments&... arguments) const {
    launch_blocks(kernel, pairs * chunks.most, shared, arguments...);
  }
  void launch_couple(const Vectors<T>& left, const Vectors<T>& right, const Vectors<T>& queries,
                     const Coupled<T>& to) const {
    launch_chunks(couple<T>, memory_of_couple(chunks.factors, to.meetings != nullptr), left, right, queries,
                  to);
  }

 private:
  Device device_;
  const TokenLayout& layout_;
};

}  // namespace orthornn::cuda::factors
