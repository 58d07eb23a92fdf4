#pragma once
// The definition of ChunkedKernels.

#include "cuda/delta/advance_chunks.cuh"
#include "cuda/delta/advance_gradients.cuh"
#include "cuda/delta/chunked_kernels.cuh"
#include "cuda/delta/couple_chunks.cuh"
#include "cuda/delta/gather_gradients.cuh"
#include "cuda/delta/segments.cuh"

namespace orthornn::cuda {

/// A block for each `tokens` tokens and each head of each sequence.
inline dim3 grid_of_chunks(const ChunkedGrid& grid, const ChunkSizes& sizes, Index tokens) {
  return dim3(static_cast<unsigned>((grid.longest + tokens - 1) / tokens), static_cast<unsigned>(sizes.heads),
              static_cast<unsigned>(grid.sequences));
}
/// A block for 64 rows of each head of each segment: `rows` of padded values, or with those of the segments'
/// maps.
inline dim3 grid_of_segments(const ChunkedGrid& grid, const ChunkSizes& sizes, int rows) {
  return dim3(static_cast<unsigned>(rows / 64), static_cast<unsigned>(sizes.heads),
              static_cast<unsigned>(grid.sequences * sizes.segments));
}

/// The states before (in a backward: after) all segments, from what `advance_chunks` or `advance_gradients`
/// has made of each.
template <int padded_key, bool backward>
void launch_join(const Context& gpu, const ChunkedGrid& grid, const ChunkSizes& sizes, const float* maps,
                 float* states) {
  using Join = JoinSegments<padded_key>;
  launch(gpu, join_segments<padded_key, backward>,
         {.grid = dim3(static_cast<unsigned>(sizes.padded_value / Join::values),
                       static_cast<unsigned>(sizes.heads), static_cast<unsigned>(grid.sequences)),
          .block = dim3(Join::threads),
          .shared = Join::shared},
         sizes, maps, states);
}

/// Calls body(padded_tokens) for a number of padded tokens, as a constant: 16, 32 or 64, at most `most`.
template <int most, class Body>
void with_tokens(int padded_tokens, const Body& body) {
  if (padded_tokens == 16) return body(std::integral_constant<int, 16>());
  if constexpr (most == 64) {
    if (padded_tokens == 64) return body(std::integral_constant<int, 64>());
  }
  body(std::integral_constant<int, 32>());
}

template <class Product, int padded_key>
void ChunkedKernels<Product, padded_key>::forward(const Context& gpu, const ChunkedGrid& grid,
                                                  const ChunkedArguments<E>& arguments) {
  const ChunkSizes& sizes = arguments.sizes;
  with_tokens<chunk_steps<Product, padded_key>>(sizes.padded_tokens, [&](auto tokens) {
    using Couple = Coupling<Product, padded_key, tokens>;
    if (grid.longest > 0) {
      launch(gpu, couple_chunks<Product, padded_key, tokens>,
             {.grid = grid_of_chunks(grid, sizes, sizes.tokens),
              .block = dim3(Couple::threads),
              .shared = Couple::shared},
             arguments);
    }
    const auto advance = [&](auto maps, int rows) {
      using Stages = ChunkStages<Product, padded_key, tokens, maps>;
      launch(gpu, advance_chunks<Product, padded_key, tokens, maps>,
             {.grid = grid_of_segments(grid, sizes, rows),
              .block = dim3(2 * Stages::threads),
              .shared = Stages::shared},
             arguments);
    };
    if constexpr (padded_key <= longest_split_key) {
      if (sizes.segments > 1) {
        advance(std::true_type(), sizes.padded_value + padded_key);
        launch_join<padded_key, false>(gpu, grid, sizes, arguments.segment_maps, arguments.segment_states);
      }
    }
    advance(std::false_type(), sizes.padded_value);
  });
}

template <class Product, int padded_key>
void ChunkedKernels<Product, padded_key>::backward(const Context& gpu, const ChunkedGrid& grid,
                                                   const ChunkedArguments<E>& arguments,
                                                   const ChunkedGradients<E>& gradients) {
  const ChunkSizes& sizes = arguments.sizes;
  constexpr int steps = chunk_steps<Product, padded_key>;
  with_tokens<steps>(sizes.padded_tokens, [&](auto tokens) {
    using Stages = ChunkStages<Product, padded_key, tokens, false>;
    const auto advance = [&](auto kernel) {
      launch(gpu, kernel,
             {.grid = grid_of_segments(grid, sizes, sizes.padded_value),
              .block = dim3(2 * Stages::threads),
              .shared = Stages::shared},
             arguments, gradients);
    };
    if constexpr (padded_key <= longest_split_key) {
      if (sizes.segments > 1) {
        advance(advance_gradients<Product, padded_key, tokens, true>);
        launch_join<padded_key, true>(gpu, grid, sizes, arguments.segment_maps, gradients.d_segment_states);
      }
    }
    advance(advance_gradients<Product, padded_key, tokens, false>);
  });
  if (grid.longest == 0) return;
  constexpr int grouped = gathered_chunks<Product, padded_key>;
  with_tokens<grouped * steps>(pad_tokens(grouped * sizes.tokens), [&](auto tokens) {
    const auto gather = [&](auto decays) {
      using Sum = Gather<Product, padded_key, tokens, decays>;
      launch(gpu, gather_gradients<Product, padded_key, tokens, decays>,
             {.grid = grid_of_chunks(grid, sizes, grouped * sizes.tokens),
              .block = dim3(Sum::threads),
              .shared = Sum::shared},
             arguments, gradients);
    };
    if (arguments.log_decays != nullptr) {
      gather(std::true_type());
    } else {
      gather(std::false_type());
    }
  });
}

}  // namespace orthornn::cuda
