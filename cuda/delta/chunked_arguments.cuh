#pragma once
// What the kernels of the chunked delta product read and write.

#include <cstddef>
#include <cstdint>

#include "cuda/delta/chunk_geometry.cuh"
#include "cuda/delta/delta_pointers.cuh"

namespace orthornn::cuda {

/// Steps of a chunk at most: what one block keeps in registers and shared memory.
template <class Product, int padded_key>
inline constexpr int chunk_steps = Product::vector == 8 && padded_key <= 128 ? 64 : 32;

/// Rows that the kernels have for the tokens of a chunk.
constexpr int pad_tokens(int tokens) { return tokens <= 16 ? 16 : tokens <= 32 ? 32 : 64; }

/// Chunks that one block of the last kernel of a backward takes together. States are kept for the first of
/// them, and gradients of states for the last, because both are most of what this kernel reads where keys are
/// long.
template <class Product, int padded_key>
inline constexpr int gathered_chunks = Product::vector == 8 && padded_key > 128 ? 2 : 1;

/// Rows of an image of a state: what one copy brings to the last kernel of a backward.
inline constexpr int state_rows = 32;

/// Numbers of a chunk and head that scale rows and columns, in float [slots, 4 C + 4]: for each step
/// `start` (decay from the chunk's begin, times the factor that gives the key norm 1) and `end` (decay to the
/// chunk's end, times beta and that factor), for each token `read` (scale times decay from the begin), and
/// the decay of the whole chunk. The kernels that go from chunk to chunk read these. After them comes
/// `factor`, which gives the key of a step norm 1.
template <int steps>
struct ChunkScales {
  static constexpr int start = 0, end = steps, read = 2 * steps, whole = 3 * steps,
                       first_part = 3 * steps + 4, factor = first_part, count = first_part + steps;
};

/// Sequences with longer keys are not split into segments: two of their maps do not fit into shared memory.
inline constexpr int longest_split_key = 128;
/// Numbers from a row of a segment's map to the next: with these, a forward reads no bank of shared
/// memory twice.
__host__ __device__ constexpr int map_pitch(int padded_key) { return padded_key + 4; }

/// Whether rows of a tensor are whole vectors of 16 bytes.
template <class U>
bool are_vectors(TensorView<U> tensor) {
  const std::size_t bytes = 16, row = static_cast<std::size_t>(tensor.shape()[-1]) * sizeof(U);
  return row % bytes == 0 && reinterpret_cast<std::uintptr_t>(tensor.data()) % bytes == 0;
}

template <class E>
struct ChunkedArguments : DeltaPointers<E> {
  ChunkSizes sizes;
  /// Whether rows are whole vectors of 16 bytes: of keys and queries, of the values or the gradients of
  /// outputs, of the outputs or the gradients of values, and of the gradients of keys and queries.
  bool aligned_keys, aligned_values, aligned_outputs = false, aligned_gradients = false;
  /// Kept for each slot: scales, and images of the inverse [C, C] and of the scores [padded tokens, C]; for a
  /// backward also of the errors [padded V, C]. Kept for each slot of `gathered_chunks` is the state before
  /// them [padded V, padded K], in images of `state_rows` rows. Images of bfloat16 with more than 64 columns
  /// lie in panels.
  E *inverse = nullptr, *scores = nullptr;
  float* scales = nullptr;
  E *errors = nullptr, *states = nullptr;
  E* outputs = nullptr;
  float* final_states = nullptr;
  /// Of the segments (segments.cuh): states before them [B, H, segments, padded V, padded K], and maps
  /// [B, H, segments, padded K, padded K + 4].
  float *segment_states = nullptr, *segment_maps = nullptr;

  /// The sizes need no table of the sequences.
  ChunkedArguments(const DeltaWork<E>& work, const ChunkSizes& chunk_sizes)
      : DeltaPointers<E>(work),
        sizes(chunk_sizes),
        aligned_keys(are_vectors(work.input.keys) && are_vectors(work.input.queries)),
        aligned_values(are_vectors(work.input.values)) {
    sizes.sequences = table_of(work.layout, work.saved.device());
  }
};

/// What the backward reads and writes beside these.
template <class E>
struct ChunkedGradients : DeltaGradientPointers<E> {
  using DeltaGradientPointers<E>::DeltaGradientPointers;
  /// For the second kernel: for each slot the gradients of the errors [padded V, C], an image, which are
  /// those of the values; for each slot of `gathered_chunks` the gradient of the state after them, as states
  /// are kept.
  E *d_errors = nullptr, *d_states = nullptr;
  /// Of the states after the segments [B, H, segments, padded V, padded K].
  float* d_segment_states = nullptr;
};

}  // namespace orthornn::cuda
