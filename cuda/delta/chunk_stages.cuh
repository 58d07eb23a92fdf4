#pragma once
// How chunks come to the kernels that go from chunk to chunk: four warps load, four compute, and a ring of
// stages in shared memory lies between them. A barrier for each stage says that its chunk has come, another
// one that it has been read.
//
// A stage: keys [C, K], queries [tokens, K], values or gradients of outputs [C, 64], inverse [C, C], scores
// [tokens, C], scales. Rows come by copies of 16 bytes, which put them where tiles want them; what is an
// image already comes by one bulk copy each.

#include <type_traits>

#include "cuda/delta/chunked_arguments.cuh"
#include "cuda/delta/row_products.cuh"

namespace orthornn::cuda {

/// One head of a segment of a sequence, in chunks.
struct ChunkSegment {
  const ChunkSizes& sizes;
  /// Among the sequences, among those of the sequence, and how many of these have chunks.
  Index sequence_number;
  int number, count, head;
  TokenSequence sequence;
  Index first_slot, begin, end;

  /// `block` counts segments and sequences.
  __device__ __forceinline__ ChunkSegment(const ChunkSizes& chunk_sizes, Index block, int h)
      : sizes(chunk_sizes),
        sequence_number(block / chunk_sizes.segments),
        number(static_cast<int>(block % chunk_sizes.segments)),
        head(h),
        sequence(sequence_of(chunk_sizes.sequences, sequence_number)),
        first_slot(first_chunk(chunk_sizes, sequence, sequence_number)) {
    const Index chunks = (sequence.count + sizes.tokens - 1) / sizes.tokens;
    count = static_cast<int>(max(Index{1}, (chunks + sizes.segment_chunks - 1) / sizes.segment_chunks));
    begin = min(chunks, number * sizes.segment_chunks);
    end = min(chunks, begin + sizes.segment_chunks);
  }
  __device__ __forceinline__ bool is_last() const { return number + 1 >= count; }
  __device__ __forceinline__ ChunkPlace place(Index chunk) const {
    return {sizes, sequence, first_slot, chunk, head};
  }
  /// Of the group of chunks that has this one.
  template <int chunks>
  __device__ __forceinline__ Index slot_of_group(Index chunk) const {
    return group_slot<chunks>(sizes, first_slot, sequence_number, chunk, head);
  }
  __device__ __forceinline__ Index head_place() const { return sequence_number * sizes.heads + head; }
  /// Of the state of the head, among those [B, H, K, V].
  __device__ __forceinline__ Index state_place() const { return head_place() * sizes.key * sizes.value; }
};

/// Calls body(first, from) for the blocks of 16 from `first` = 0, 16, .. on, with `first` rounded down to a
/// multiple of `granule`. Both are constants.
template <int count, int granule, int first = 0, class Body>
__device__ __forceinline__ void each_block(const Body& body) {
  if constexpr (first < count) {
    body(std::integral_constant<int, first>(), std::integral_constant<int, first / granule * granule>());
    each_block<count, granule, first + 16>(body);
  }
}

/// Where a forward makes only maps of segments (`maps`), a stage has neither queries nor scores, nothing
/// leaves, and with bfloat16 two blocks share a multiprocessor.
template <class Product, int padded_key, int padded_tokens, bool maps>
class ChunkStages {
 public:
  using E = typename Product::Element;
  static constexpr int steps = chunk_steps<Product, padded_key>;
  /// Values of a block.
  static constexpr int values = 64;
  /// Those that compute, the first of a block, and as many that load.
  static constexpr int threads = 128;
  /// Of the keys in one product.
  static constexpr int key_columns =
      padded_key < RowProducts<Product>::most_columns ? padded_key : RowProducts<Product>::most_columns;
  using Scales = ChunkScales<steps>;
  using KeyTile = Tile<Product, padded_key, steps>;
  using QueryTile = Tile<Product, padded_key, padded_tokens>;
  using ValueTile = Tile<Product, values>;
  using StepTile = Tile<Product, steps>;

  struct Stage {
    KeyTile keys;
    QueryTile queries;
    ValueTile values;
    StepTile inverse, scores;
    float* scales;
    std::uint64_t *full, *empty;
  };
  /// What a computing warp sends to global memory.
  struct Leaving {
    Tile<Product, padded_key, 16> state;
    StepTile errors;
    /// 16 values of tokens, or of steps.
    E* outputs;
  };

 private:
  static constexpr std::size_t scale_bytes = sizeof(float) * Scales::first_part;
  // Tiles begin at multiples of 1024 bytes.
  static constexpr int read_tokens = maps ? 0 : padded_tokens;
  static constexpr std::size_t stage_bytes = KeyTile::bytes(steps) + QueryTile::bytes(read_tokens) +
                                             ValueTile::bytes(steps) + StepTile::bytes(steps + read_tokens) +
                                             1024;
  static_assert(scale_bytes <= 1024 && stage_bytes % 1024 == 0);
  static constexpr std::size_t leaving_bytes =
      KeyTile::packed && !maps ? KeyTile::bytes(16) + 2 * StepTile::bytes(16) : 0;
  static constexpr std::size_t barrier_bytes = 128, alignment = 1024;
  static constexpr std::size_t bytes(int count) {
    return alignment + count * stage_bytes + 4 * leaving_bytes + barrier_bytes;
  }
  // What a multiprocessor of compute capability 9.0 has, of which each block takes 1 KB more.
  static constexpr std::size_t most_bytes = 228 * 1024 / (maps ? 2 : 1) - 1024;

 public:
  /// Blocks that a multiprocessor shall hold.
  static constexpr int blocks = maps && KeyTile::packed && bytes(2) <= most_bytes ? 2 : 1;
  static constexpr int count = bytes(3) <= most_bytes ? 3 : 2;
  static constexpr std::size_t shared = bytes(count);

  /// By all threads of the block.
  __device__ __forceinline__ ChunkStages() {
    memory_ = tile_memory();
    barriers_ = reinterpret_cast<std::uint64_t*>(memory_ + count * stage_bytes + 4 * leaving_bytes);
    if (threadIdx.x == 0) {
      for (int i = 0; i < count; ++i) {
        ptx::mbarrier_initialize(barriers_ + i, threads + 1);  // of each loading thread, and the bulk copies
        ptx::mbarrier_initialize(barriers_ + count + i, threads);  // of each computing thread
      }
      ptx::mbarrier_fence_initialization();
    }
    __syncthreads();
  }

  /// Of a loading thread among them.
  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x) - threads; }
  /// What a loading thread does for each chunk. The rows of values are those of steps, [C, 64], or the
  /// gradients of outputs, [tokens, 64].
  template <int value_rows>
  class Loading {
   public:
    /// `any` and `values` are of a chunk, whichever. `aligned`: whether rows of values are whole vectors.
    __device__ __forceinline__ Loading(ChunkStages& stages, const ChunkedArguments<E>& a,
                                       const ChunkPlace& any, const ChunkRows<const E>& values, int value,
                                       bool aligned)
        : stages_(stages),
          a_(a),
          asynchronous_(aligned && a.aligned_keys),
          keys_(stages.thread(), step_rows(a.keys, a.sizes.key, a.sizes, any), a.sizes.key, 0,
                a.aligned_keys),
          queries_(stages.thread(), token_rows(a.queries, a.sizes.key, a.sizes, any), a.sizes.key, 0,
                   a.aligned_keys),
          values_(stages.thread(), values, a.sizes.value, value, aligned) {}

    __device__ __forceinline__ void load(const ChunkPlace& place, const ChunkRows<const E>& values,
                                         int present) {
      const Stage s = stages_.stage();
      if (stages_.round_ > 0) ptx::mbarrier_wait(s.empty, (stages_.round_ - 1) % 2);
      if (stages_.thread() == 0) {
        constexpr unsigned inverse = StepTile::bytes(steps), scores = StepTile::bytes(padded_tokens),
                           scales = scale_bytes;
        ptx::mbarrier_arrive_expect(s.full, inverse + (!maps ? scores : 0) + scales);
        ptx::copy_bulk_to_shared(s.inverse.data, a_.inverse + place.slot * steps * steps, inverse, s.full);
        if (!maps)
          ptx::copy_bulk_to_shared(s.scores.data, a_.scores + place.slot * padded_tokens * steps, scores,
                                   s.full);
        ptx::copy_bulk_to_shared(s.scales, a_.scales + place.slot * Scales::count, scales, s.full);
      }
      keys_.start(s.keys, step_rows(a_.keys, a_.sizes.key, a_.sizes, place), place.steps);
      values_.start(s.values, values, present);
      if (!maps)
        queries_.start(s.queries, token_rows(a_.queries, a_.sizes.key, a_.sizes, place), place.tokens);
      if (asynchronous_) {
        ptx::cp_async_mbarrier_arrive(s.full);
      } else {
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        ptx::mbarrier_arrive(s.full);
      }
      stages_.next();
    }

   private:
    ChunkStages& stages_;
    const ChunkedArguments<E>& a_;
    bool asynchronous_;
    RowCopies<threads, steps, KeyTile> keys_;
    RowCopies<threads, padded_tokens, QueryTile> queries_;
    RowCopies<threads, value_rows, ValueTile> values_;
  };

  /// The next stage to compute with, when it has come.
  __device__ __forceinline__ Stage wait() {
    const Stage s = stage();
    ptx::mbarrier_wait(s.full, round_ % 2);
    ptx::fence_proxy_async();  // wgmma reads what threads have copied
    return s;
  }
  /// By a computing thread that reads the stage no more.
  __device__ __forceinline__ void release() {
    ptx::mbarrier_arrive(barriers_ + count + number_);
    next();
  }
  __device__ __forceinline__ Leaving leaving() const {
    E* const begin = reinterpret_cast<E*>(memory_ + count * stage_bytes + threadIdx.x / 32 * leaving_bytes);
    return {
        .state = {begin}, .errors = {begin + 16 * padded_key}, .outputs = begin + 16 * (padded_key + steps)};
  }

 private:
  __device__ __forceinline__ Stage stage() const {
    // All lanes have the same number. That the compiler knows it saves a move to uniform registers for every
    // product.
    E* next = reinterpret_cast<E*>(memory_ + __shfl_sync(whole_warp, number_, 0) * stage_bytes);
    const auto take = [&](int size) {
      E* const here = next;
      next += size;
      return here;
    };
    Stage s;
    s.keys = {take(steps * padded_key)};
    s.queries = {take(read_tokens * padded_key)};
    s.values = {take(steps * values)};
    s.inverse = {take(steps * steps)};
    s.scores = {take(read_tokens * steps)};
    s.scales = reinterpret_cast<float*>(next);
    s.full = barriers_ + number_;
    s.empty = barriers_ + count + number_;
    return s;
  }
  __device__ __forceinline__ void next() {
    if (++number_ == count) number_ = 0, ++round_;
  }

  unsigned char* memory_;
  std::uint64_t* barriers_;
  /// The stage that is next, and how often all have been.
  int number_ = 0;
  unsigned round_ = 0;
};

}  // namespace orthornn::cuda
