#pragma once
// First kernel of the backward of the chunked delta product: from chunk to chunk, backward in time.
//
// As in advance_chunks.cuh, a warp keeps 16 rows of the transposed gradient of the state in registers. For
// each chunk:
//
//   1. d_errors = end * dS^T K^T + dO^T P                                [16, C]
//   2. d_errors <- d_errors (I + A)^-1, which are the gradients of the values   [16, C]
//   3. dS^T <- whole * dS^T + (read * dO)^T Q - (start * d_errors) K     [16, K]
//
// The first two terms of 3. do not wait for 2.

#include "cuda/delta/advance_chunks.cuh"

namespace orthornn::cuda {

/// With `maps` nothing but what the segments add to the gradient of the state is made (segments.cuh).
template <class Product, int padded_key, int padded_tokens, bool maps>
__global__ __launch_bounds__(256, 1) void advance_gradients(
    ChunkedArguments<typename Product::Element> a, ChunkedGradients<typename Product::Element> gradients) {
  using Stages = ChunkStages<Product, padded_key, padded_tokens, false>;
  using Scales = typename Stages::Scales;
  using Products = RowProducts<Product>;
  using Left = typename Product::Left;
  constexpr int steps = Stages::steps, key_tiles = padded_key / 8, step_tiles = steps / 8,
                token_tiles = padded_tokens / 8, grouped = gathered_chunks<Product, padded_key>;
  // Segments do not cut groups, as sequences with long keys are one segment.
  static_assert(grouped == 1 || padded_key > longest_split_key);
  const int head = static_cast<int>(blockIdx.y), block_value = static_cast<int>(blockIdx.x) * Stages::values;
  const ChunkSegment segment(a.sizes, blockIdx.z, head);
  if (segment.number >= segment.count || (maps && segment.number == 0)) return;
  Stages stages;
  if (threadIdx.x >= Stages::threads) {
    // d_outputs take the place of the values.
    const auto values = [&](const ChunkPlace& place) {
      return token_rows(gradients.d_outputs, a.sizes.value, a.sizes, place);
    };
    const ChunkPlace begin = segment.place(segment.begin);
    typename Stages::template Loading<padded_tokens> loading(stages, a, begin, values(begin), block_value,
                                                             a.aligned_values);
    for (Index chunk = segment.end; chunk-- > segment.begin;) {
      const ChunkPlace place = segment.place(chunk);
      loading.load(place, values(place), place.tokens);
    }
    return;
  }

  const int warp_value = static_cast<int>(threadIdx.x) / 32 * 16;
  const int value = block_value + warp_value + lane_row();  // of this lane's first row
  Rows<key_tiles> d_state;
  if (segment.is_last()) {
    load_state(
        d_state,
        gradients.d_final_states == nullptr ? nullptr : gradients.d_final_states + segment.state_place(),
        a.sizes, value);
  } else if (maps) {
    d_state.set_zero();
  } else {
    load_segment_state(d_state,
                       gradients.d_segment_states + segment_state_place(segment, padded_key, segment.number),
                       value);
  }
  const auto leaving = stages.leaving();

  for (Index chunk = segment.end; chunk-- > segment.begin;) {
    const auto stage = stages.wait();
    const ChunkPlace place = segment.place(chunk);
    const Index kept = place.slot * a.sizes.padded_value;
    Left of_state[key_tiles / 2], of_outputs[token_tiles / 2], of_reads[token_tiles / 2];
    make_operands<Product>(of_state, d_state);
#pragma unroll
    for (int t = 0; t < padded_tokens; t += 16) {
      of_outputs[t / 16] = stage.values.left_transposed(t, warp_value);
      Rows<2> x;
      Product::unpack(of_outputs[t / 16], x.tile[0], x.tile[1]);
      scale_columns(x, stage.scales + Scales::read + t);
      of_reads[t / 16] = Product::left(x.tile[0], x.tile[1]);
    }
    if (a.log_decays != nullptr) scale(d_state, stage.scales[Scales::whole]);

    // 1. Of the errors, by the state after the chunk and by the outputs.
    Rows<step_tiles> by_state, by_outputs;
    Products::fence();
    Products::template with_all_columns<steps, false>(by_state.tile, of_state, stage.keys);
    Products::template over_all_columns<steps, false>(by_outputs.tile, of_outputs, stage.scores);
    Products::commit();
    Products::template over_all_columns<Stages::key_columns, true>(d_state.tile, of_reads, stage.queries);
    Products::commit();
    if (!maps && (chunk % grouped == grouped - 1 || chunk + 1 == segment.end))
      send_state<Product>(
          of_state, leaving.state,
          gradients.d_states + segment.slot_of_group<grouped>(chunk) * a.sizes.padded_value * padded_key,
          block_value + warp_value);
    Products::template wait<1>(by_state, by_outputs);
    scale_columns(by_state, stage.scales + Scales::end);
#pragma unroll
    for (int j = 0; j < step_tiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) by_state.tile[j][i] += by_outputs.tile[j][i];
    }
    // 2. Through the errors that were mended before.
    Left operands[step_tiles / 2];
    make_operands<Product>(operands, by_state);
    Rows<step_tiles> d_errors;
    Products::fence();
    each_block<steps, Products::granule>([&](auto last, auto) {
      // From the last block of rows, which has all columns.
      constexpr int row = steps - 16 - static_cast<int>(last);
      constexpr int columns = (row / Products::granule + 1) * Products::granule;
      Products::template over_rows<columns, row != steps - 16>(d_errors.tile, operands[row / 16],
                                                               stage.inverse, row, 0);
    });
    Products::commit();
    Products::template wait<0>(d_errors, d_state);
    make_operands<Product>(operands, d_errors);
    // 3. Of the state before the chunk.
    const Rows<step_tiles> d_values = d_errors;
    scale(d_errors, -1.0F);
    scale_columns(d_errors, stage.scales + Scales::start);
    Left updates[step_tiles / 2];
    make_operands<Product>(updates, d_errors);
    Products::fence();
    Products::template over_all_columns<Stages::key_columns, true>(d_state.tile, updates, stage.keys);
    Products::commit();
    if (!maps) {
      send_rows<Product>(operands, leaving.errors, gradients.d_errors + kept * steps,
                         block_value + warp_value, a.sizes.padded_value);
      store_outputs<Product>(d_values, leaving.outputs,
                             step_rows(gradients.d_values, a.sizes.value, a.sizes, place), place.steps,
                             block_value + warp_value, a.sizes.value, a.aligned_outputs);
    }
    Products::template wait<0>(d_state);
    stages.release();
  }

  if constexpr (maps) {
    store_rows(d_state,
               gradients.d_segment_states + segment_state_place(segment, padded_key, segment.number - 1),
               value, padded_key);
    return;
  }
  // Shared memory of a block that has ended belongs to the next one.
  if (threadIdx.x % 32 == 0) ptx::copy_bulk_wait_read();
  if (gradients.d_initial_states != nullptr && segment.number == 0)
    store_state(d_state, gradients.d_initial_states + segment.state_place(), a.sizes, value);
}

}  // namespace orthornn::cuda
