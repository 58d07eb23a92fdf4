#pragma once
// Where the chunks of a delta product lie, and how their rows come to shared memory.

#include "cuda/core/kernel.cuh"
#include "cuda/core/ptx.cuh"
#include "cuda/delta/token_sequence.cuh"
#include "cuda/delta/warp_product.cuh"
#include "orthornn/delta/delta_sizes.hpp"

namespace orthornn::cuda {

/// Sizes of a chunked delta product. All kernels have them.
struct ChunkSizes : BasicDeltaSizes<int> {
  TokenTable sequences = {};
  /// Tokens of a chunk, and its factors, which are steps here: these times n.
  int tokens, steps;
  /// `tokens` rounded up to 16, 32 or 64, and V to a multiple of 64: sizes of kept matrices.
  int padded_tokens, padded_value;
  /// Parts of a sequence that are done at once, and chunks of each of them but the last.
  int segments;
  Index segment_chunks;
  /// 65536 / n, rounded up: r / n is r * reciprocal / 65536 for the steps of a chunk.
  unsigned reciprocal;

  __device__ __forceinline__ int token_of(int r) const {
    return static_cast<int>(static_cast<unsigned>(r) * reciprocal >> 16);
  }
};

/// The number of the first chunk of sequence b, so that no two have one number.
__device__ __forceinline__ Index first_chunk(const ChunkSizes& sizes, const TokenSequence& sequence,
                                             Index b) {
  return sequence.before / sizes.tokens + b;
}

/// One head of one chunk.
struct ChunkPlace {
  /// Row of the chunk's first token, and rows from a token to the next.
  Index row;
  int stride;
  int head;
  /// Tokens, and these times n.
  int tokens, steps;
  /// Number of head and chunk among all: where what is kept of it lies.
  Index slot;

  /// `first` is `first_chunk` of the sequence.
  __device__ __forceinline__ ChunkPlace(const ChunkSizes& sizes, const TokenSequence& sequence, Index first,
                                        Index chunk, int h)
      : row(sequence.row(chunk * sizes.tokens)),
        stride(static_cast<int>(sequence.stride)),
        head(h),
        tokens(
            static_cast<int>(min(static_cast<Index>(sizes.tokens), sequence.count - chunk * sizes.tokens))),
        steps(tokens * sizes.factors),
        slot((first + chunk) * sizes.heads + h) {}
};

/// Number of a head and group of `chunks` chunks among all, where what is kept of it lies. The group has
/// `chunk` of sequence b, and `first` is `first_chunk` of this sequence. The groups of a sequence may begin
/// in the middle of `chunks` numbers of chunks, so each sequence has `chunks` - 1 such numbers more.
template <int chunks>
__device__ __forceinline__ Index group_slot(const ChunkSizes& sizes, Index first, Index b, Index chunk,
                                            int head) {
  return ((first + (chunks - 1) * b) / chunks + chunk / chunks) * sizes.heads + head;
}
/// Groups of one head that have a number, where so many chunks have one.
constexpr Index group_count(int chunks, Index numbers, Index sequences) {
  return (numbers + (chunks - 1) * sequences) / chunks;
}

/// `chunks` chunks of one head, one after another, which a block takes as one. Their tokens are one sequence
/// of rows. Their steps are `chunks` times C rows, and those of a chunk begin at a multiple of C.
template <int chunks, int C>
class ChunkGroup {
 public:
  /// Of the chunks from `first` on. `number` is `first_chunk` of the sequence.
  __device__ __forceinline__ ChunkGroup(const ChunkSizes& sizes, const TokenSequence& sequence, Index number,
                                        Index first, int head)
      : sizes_(sizes), all_(sizes, sequence, number, first, head) {
    if constexpr (chunks > 1) {
      all_.tokens = static_cast<int>(
          min(static_cast<Index>(chunks * sizes.tokens), sequence.count - first * sizes.tokens));
      all_.steps = 0;
    }
  }

  /// The place of the first chunk, but with the tokens of all. It is not for steps.
  __device__ __forceinline__ const ChunkPlace& all() const { return all_; }
  /// Chunk i, which has no tokens if the sequence ends before it.
  __device__ __forceinline__ ChunkPlace chunk(int i) const {
    ChunkPlace place = all_;
    if constexpr (chunks > 1) {
      const int before = i * sizes_.tokens;
      if (before < all_.tokens) place.row += static_cast<Index>(before) * all_.stride;
      place.slot += i * sizes_.heads;
      place.tokens = max(0, min(sizes_.tokens, all_.tokens - before));
      place.steps = place.tokens * sizes_.factors;
    }
    return place;
  }

  /// Of the step in a row. Rows beyond a chunk's steps count to its last token.
  __device__ __forceinline__ int token_of(int row) const {
    return row / C * sizes_.tokens + min(sizes_.token_of(row % C), sizes_.tokens - 1);
  }
  /// Of a token's first step.
  __device__ __forceinline__ int row_of(int token) const {
    if constexpr (chunks == 1) return token * sizes_.factors;
    const int i = token / sizes_.tokens;
    return i * C + (token - i * sizes_.tokens) * sizes_.factors;
  }

 private:
  const ChunkSizes& sizes_;
  ChunkPlace all_;
};

/// The vectors of one head in a chunk of a tensor [R, H, width], or [R, n, H, width].
template <class T>
struct ChunkRows {
  T* first;
  /// Numbers from a row or step to the next.
  int pitch;
  int stride, factors;
  unsigned reciprocal;

  __device__ __forceinline__ T* operator[](int i) const {
    const int token = factors == 1 ? i : static_cast<int>(static_cast<unsigned>(i) * reciprocal >> 16);
    return first + static_cast<Index>(i + token * (stride - 1) * factors) * pitch;
  }
};
template <class T>
__device__ __forceinline__ ChunkRows<T> token_rows(T* tensor, int width, const ChunkSizes& sizes,
                                                   const ChunkPlace& place) {
  return {tensor + (place.row * sizes.heads + place.head) * width, sizes.heads * width, place.stride, 1,
          65536};
}
template <class T>
__device__ __forceinline__ ChunkRows<T> step_rows(T* tensor, int width, const ChunkSizes& sizes,
                                                  const ChunkPlace& place) {
  return {tensor + (place.row * sizes.factors * sizes.heads + place.head) * width, sizes.heads * width,
          place.stride, sizes.factors, sizes.reciprocal};
}

/// The dynamic shared memory of the block from a multiple of 1024 bytes on, where tiles begin.
__device__ __forceinline__ unsigned char* tile_memory() {
  constexpr unsigned alignment = 1024;
  const unsigned begin = ptx::shared_address(dynamic_shared_memory());
  return dynamic_shared_memory() + (alignment - begin % alignment) % alignment;
}

/// Starts loading `rows` rows of a tile, at most `most`, by threads 0 .. `threads` - 1 of some. The rows
/// below `present` have `width` numbers, of which the tile takes those from `column` on. What is missing
/// becomes 0. Rows that are not of whole vectors are copied number by number.
template <int threads, int most, class Product, int columns, int panel_rows, class Source>
__device__ __forceinline__ void load_rows(int thread, const Tile<Product, columns, panel_rows>& tile,
                                          int rows, const ChunkRows<Source>& source, int width, int column,
                                          int present, bool aligned) {
  using Element = typename Product::Element;
  constexpr int vectors = Tile<Product, columns>::vectors, size = Product::vector;
  static_assert(most * vectors % threads == 0 || most * vectors < threads);
  if (!aligned) {
#pragma unroll 1
    for (int i = thread; i < rows * columns; i += threads) {
      const int row = i / columns, j = i % columns;
      tile.at(row, j) = row < present && column + j < width ? source[row][column + j] : Element(0.0F);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < most * vectors; i += threads) {
    const int row = (i + thread) / vectors, v = (i + thread) % vectors, begin = column + v * size;
    if (row >= rows) break;
    const bool inside = row < present && begin < width;
    ptx::cp_async_or_zero(tile.at_vector(row, v), source[inside ? row : 0] + (inside ? begin : 0), inside);
  }
}

/// The same for kernels that load the rows of many chunks, one chunk after another: what the chunks have in
/// common is computed once. Aligned rows take five instructions a vector then, and took twenty before.
template <int threads, int most, class Tile>
class RowCopies {
  using Element = typename Tile::Element;
  static constexpr int vectors = Tile::vectors, size = 16 / sizeof(Element), rows = threads / vectors;
  static_assert(threads % vectors == 0 && most % rows == 0);

 public:
  /// For rows that lie as those of `pattern`.
  __device__ __forceinline__ RowCopies(int thread, const ChunkRows<const Element>& pattern, int width,
                                       int column, bool aligned)
      : thread_(thread), width_(width), column_(column), aligned_(aligned) {
    const int begin = column + thread % vectors * size;
    inside_ = begin < width;
#pragma unroll
    for (int i = 0; i < most / rows; ++i)
      places_[i] = pattern[thread / vectors + i * rows] - pattern.first + begin;
  }
  /// Starts loading the rows of a chunk.
  __device__ __forceinline__ void start(const Tile& tile, const ChunkRows<const Element>& source,
                                        int present) const {
    if (!aligned_)
      return load_rows<threads, most>(thread_, tile, most, source, width_, column_, present, false);
#pragma unroll
    for (int i = 0; i < most / rows; ++i) {
      const int row = thread_ / vectors + i * rows;
      const bool inside = inside_ && row < present;
      ptx::cp_async_or_zero(tile.at_vector(row, thread_ % vectors), source.first + (inside ? places_[i] : 0),
                            inside);
    }
  }

 private:
  int thread_, width_, column_;
  bool aligned_, inside_;
  Index places_[most / rows];
};

}  // namespace orthornn::cuda
