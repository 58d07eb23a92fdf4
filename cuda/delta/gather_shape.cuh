#pragma once
// Sizes and shared memory of gather_gradients.cuh, and what a thread reads.

#include <algorithm>

#include "cuda/delta/chunked_arguments.cuh"
#include "cuda/delta/decay_sums.cuh"
#include "cuda/delta/row_products.cuh"

namespace orthornn::cuda {

template <class P, int key, int tokens, bool with_decays>
struct Gather {
  using Product = P;
  static constexpr int padded_key = key, padded_tokens = tokens;
  static constexpr bool decays = with_decays;
  /// Chunks of a block, and rows of steps of each and of all.
  static constexpr int chunks = gathered_chunks<Product, padded_key>,
                       chunk_rows = chunk_steps<Product, padded_key>, steps = chunks * chunk_rows;
  using Group = ChunkGroup<chunks, chunk_rows>;
  /// Values of a stage.
  static constexpr int values = state_rows;
  /// Columns of a warp, and warps side by side over the columns and over the rows.
  static constexpr int columns = Product::vector == 8 && padded_key >= 128 ? 128 : 64,
                       parts = padded_key / columns, rows = steps / 16;
  static constexpr int threads = 32 * parts * rows;
  /// Blocks that a multiprocessor shall hold: one loads while another computes.
  static constexpr int blocks = Product::vector == 8 && padded_key <= 128 ? 2 : 1;
  using E = typename Product::Element;
  using KeyTile = Tile<Product, padded_key, steps>;
  using QueryTile = Tile<Product, padded_key, padded_tokens>;
  using StateTile = Tile<Product, padded_key, values>;
  using ValueTile = Tile<Product, values>;
  using StepTile = Tile<Product, steps>;
  /// Of one chunk.
  using ErrorTile = Tile<Product, chunk_rows>;
  static constexpr std::size_t error_bytes = ErrorTile::bytes(values);
  // Rows of a tile are 64 bytes at least.
  using ScoreTile = Tile<Product, (padded_tokens < 32 ? 32 : padded_tokens)>;

  /// Sums of the rows of one part.
  struct Sums {
    float betas[steps], factors[steps];
    float end_dot[parts][steps], key_dot[parts][steps], beta[parts][steps];
  };
  /// What decays need beside.
  struct Logs {
    DecaySums<steps> sums;
    /// The decays from the last of the rows of a warp to a later token, and to a later step times what
    /// makes its key unit. They are 0 for those before the rows.
    float to_token[rows][padded_tokens], to_step[rows][steps];
    float step_high[steps], step_low[steps];
    /// Of the rows of one part.
    float start_dot[parts][steps], query_dot[parts][steps], row[parts][steps];
    /// Of the columns of one warp of rows.
    float token[rows][padded_tokens], step[rows][steps];
    float state_dot[threads / 32], step_sums[steps], token_sums[steps];
  };
  /// Of errors, or of what decays need in their place.
  static constexpr std::size_t last_bytes =
      decays ? std::max(StateTile::bytes(values), chunks* error_bytes) : chunks * error_bytes;
  static constexpr std::size_t stage_bytes =
      StateTile::bytes(values) + chunks * error_bytes + ValueTile::bytes(padded_tokens) + last_bytes;
  static constexpr std::size_t shared_beside_stages =
      1024 + KeyTile::bytes(steps) + QueryTile::bytes(padded_tokens) + ScoreTile::bytes(steps) +
      StepTile::bytes(steps) + 64 + sizeof(Sums) + (decays ? sizeof(Logs) : 0);
  static constexpr bool fits(int stages) {
    return blocks * (shared_beside_stages + stages * stage_bytes + 1024) <= 228 * 1024;
  }
  // The more, the earlier a stage is loaded.
  static constexpr int stages = fits(3) ? 3 : 2;
  static_assert(fits(stages));
  static constexpr std::size_t shared = shared_beside_stages + stages * stage_bytes;
  /// Where each begins, after the stages.
  static constexpr std::size_t keys_at = stages * stage_bytes, queries_at = keys_at + KeyTile::bytes(steps),
                               d_scores_at = queries_at + QueryTile::bytes(padded_tokens),
                               d_gram_at = d_scores_at + ScoreTile::bytes(steps),
                               barriers_at = d_gram_at + StepTile::bytes(steps), sums_at = barriers_at + 64,
                               logs_at = sums_at + sizeof(Sums);
  // What leaves takes the place of the stages.
  static_assert(rows * parts * Tile<Product, columns>::bytes(16) <= stages * stage_bytes);
};

/// What a thread reads, and the part of the results that its warp has.
template <class Shape>
struct GatherThread {
  using E = typename Shape::E;
  using Products = RowProducts<typename Shape::Product, Shape::rows == 4>;

  const ChunkedArguments<E>& a;
  const ChunkedGradients<E>& gradients;
  const typename Shape::Group& group;
  /// `tile_memory`, where the stages are.
  unsigned char* memory;

  /// The place of the first chunk, but with the tokens of all.
  const ChunkPlace& place = group.all();
  typename Shape::KeyTile keys{at<E>(Shape::keys_at)};
  typename Shape::QueryTile queries{at<E>(Shape::queries_at)};
  /// dP^T and G^T.
  typename Shape::ScoreTile d_scores{at<E>(Shape::d_scores_at)};
  typename Shape::StepTile d_gram{at<E>(Shape::d_gram_at)};
  std::uint64_t* barriers = at<std::uint64_t>(Shape::barriers_at);
  typename Shape::Sums& sums = *at<typename Shape::Sums>(Shape::sums_at);
  typename Shape::Logs& logs = *at<typename Shape::Logs>(Shape::logs_at);

  int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  /// Which part of the columns the warp has, its first row and its first column.
  int part = warp / Shape::rows, row = warp % Shape::rows * 16, column = Shape::columns * part;
  /// Of this warp's rows among those of its chunk.
  int own_chunk = row / Shape::chunk_rows, chunk_row = row % Shape::chunk_rows;
  /// Rows beyond the tokens are those of others, and are not stored.
  bool has_tokens = row < Shape::padded_tokens;
  int token_row = has_tokens ? row : 0;
  /// A warp has X or M, or both where a row of warps has one part.
  bool has_scores = Shape::parts == 1 || part == 0, has_gram = Shape::parts == 1 || part == Shape::parts - 1;
  /// A warpgroup has the products of both, as those in a branch would wait for one another.
  bool multiplies_scores = Products::by_warpgroup || has_scores,
       multiplies_gram = Products::by_warpgroup || has_gram;
  /// Missing tokens do not decay.
  int last_token = Shape::chunks * a.sizes.tokens - 1;

  /// The decays from the chunk's begin to a step and from there to the chunk's end, times what makes the key
  /// unit.
  __device__ __forceinline__ float start_of(int r) const {
    return sums.factors[r] * (Shape::decays ? logs.sums.up_to(group.token_of(r)) : 1.0F);
  }
  __device__ __forceinline__ float end_of(int r) const {
    return sums.factors[r] * (Shape::decays ? logs.sums.between(group.token_of(r), last_token) : 1.0F);
  }
  /// The decay from the chunk's begin to a token, times the scale.
  __device__ __forceinline__ float read_of(int t) const {
    return a.scale * (Shape::decays && t <= last_token ? logs.sums.up_to(t) : 1.0F);
  }

 private:
  template <class U>
  __device__ __forceinline__ U* at(std::size_t offset) const {
    return reinterpret_cast<U*>(memory + offset);
  }
};

}  // namespace orthornn::cuda
