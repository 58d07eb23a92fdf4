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

/// As `AdvanceThread`, for gradients.
template <class Shape>
struct GradientThread : AdvanceThread<Shape> {
  const ChunkedGradients<typename Shape::E>& gradients;
};

/// What a loading thread does. Gradients of outputs take the place of the values.
template <class Shape>
__device__ __forceinline__ void load_chunks_backward(typename Shape::Stages& stages,
                                                     const ChunkedArguments<typename Shape::E>& a,
                                                     const typename Shape::E* d_outputs,
                                                     const ChunkSegment& segment, int block_value) {
  const auto values = [&](const ChunkPlace& place) {
    return token_rows(d_outputs, a.sizes.value, a.sizes, place);
  };
  const ChunkPlace begin = segment.place(segment.begin);
  typename Shape::Stages::template Loading<Shape::padded_tokens> loading(stages, a, begin, values(begin),
                                                                         block_value, a.aligned_values);
  for (Index chunk = segment.end; chunk-- > segment.begin;) {
    const ChunkPlace place = segment.place(chunk);
    loading.load(place, values(place), place.tokens);
  }
}

/// The gradient of the state after the segment.
template <class Shape>
__device__ __forceinline__ void begin_gradient(const GradientThread<Shape>& t,
                                               typename Shape::State& d_state) {
  const auto& gradients = t.gradients;
  const ChunkSegment& segment = t.segment;
  if (segment.is_last()) {
    load_state(
        d_state,
        gradients.d_final_states == nullptr ? nullptr : gradients.d_final_states + segment.state_place(),
        t.a.sizes, t.value);
  } else if (Shape::maps) {
    d_state.set_zero();
  } else {
    load_segment_state(
        d_state, gradients.d_segment_states + segment_state_place(segment, Shape::padded_key, segment.number),
        t.value);
  }
}

/// dO^T, as it is and times `read`.
template <class Shape>
struct OutputOperands {
  typename Shape::Left plain[Shape::padded_tokens / 16], read[Shape::padded_tokens / 16];

  __device__ __forceinline__ OutputOperands(const typename Shape::Stage& stage, int warp_value) {
    using Product = typename Shape::Product;
#pragma unroll
    for (int t = 0; t < Shape::padded_tokens; t += 16) {
      plain[t / 16] = stage.values.left_transposed(t, warp_value);
      Rows<2> x;
      Product::unpack(plain[t / 16], x.tile[0], x.tile[1]);
      scale_columns(x, stage.scales + Shape::Scales::read + t);
      read[t / 16] = Product::left(x.tile[0], x.tile[1]);
    }
  }
};

/// Step 1: the gradients of the errors, by the state after the chunk and by the outputs. Keeps the gradient
/// of that state, and starts the first two terms of step 3.
template <class Shape>
__device__ __forceinline__ void multiply_gradients(const GradientThread<Shape>& t,
                                                   const typename Shape::Stage& stage, Index chunk,
                                                   typename Shape::State& d_state,
                                                   typename Shape::Errors& d_errors) {
  using Product = typename Shape::Product;
  using Products = typename Shape::Products;
  using Scales = typename Shape::Scales;
  constexpr int steps = Shape::steps, grouped = Shape::grouped;
  typename Shape::Left of_state[Shape::padded_key / 16];
  make_operands<Product>(of_state, d_state);
  const OutputOperands<Shape> of_outputs(stage, t.warp_value);
  if (t.a.log_decays != nullptr) scale(d_state, stage.scales[Scales::whole]);
  typename Shape::Errors by_outputs;
  Products::fence();
  Products::template with_all_columns<steps, false>(d_errors.tile, of_state, stage.keys);
  Products::template over_all_columns<steps, false>(by_outputs.tile, of_outputs.plain, stage.scores);
  Products::commit();
  Products::template over_all_columns<Shape::Stages::key_columns, true>(d_state.tile, of_outputs.read,
                                                                        stage.queries);
  Products::commit();
  if (!Shape::maps && (chunk % grouped == grouped - 1 || chunk + 1 == t.segment.end))
    send_state<Product>(of_state, t.stages.leaving().state,
                        t.gradients.d_states + t.segment.template slot_of_group<grouped>(chunk) *
                                                   t.a.sizes.padded_value * Shape::padded_key,
                        t.first_value);
  Products::template wait<1>(d_errors, by_outputs);
  scale_columns(d_errors, stage.scales + Scales::end);
#pragma unroll
  for (int j = 0; j < steps / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) d_errors.tile[j][i] += by_outputs.tile[j][i];
  }
}

/// Step 2: starts the product with the inverse, through the errors that were mended before.
template <class Shape>
__device__ __forceinline__ void mend_gradients(const typename Shape::Stage& stage,
                                               const typename Shape::Errors& d_errors,
                                               typename Shape::Errors& mended) {
  using Products = typename Shape::Products;
  constexpr int steps = Shape::steps;
  typename Shape::ErrorOperands operands;
  make_operands<typename Shape::Product>(operands, d_errors);
  Products::fence();
  each_block<steps, Products::granule>([&](auto last, auto) {
    // From the last block of rows, which has all columns.
    constexpr int row = steps - 16 - static_cast<int>(last);
    constexpr int columns = (row / Products::granule + 1) * Products::granule;
    Products::template over_rows<columns, row != steps - 16>(mended.tile, operands[row / 16], stage.inverse,
                                                             row, 0);
  });
  Products::commit();
}

/// Step 3: starts the last term.
template <class Shape>
__device__ __forceinline__ void update_gradient(const typename Shape::Stage& stage,
                                                typename Shape::Errors& d_errors,
                                                typename Shape::State& d_state) {
  using Products = typename Shape::Products;
  scale(d_errors, -1.0F);
  scale_columns(d_errors, stage.scales + Shape::Scales::start);
  typename Shape::ErrorOperands updates;
  make_operands<typename Shape::Product>(updates, d_errors);
  Products::fence();
  Products::template over_all_columns<Shape::Stages::key_columns, true>(d_state.tile, updates, stage.keys);
  Products::commit();
}

/// Writes the gradients of the errors, which are those of the values.
template <class Shape>
__device__ __forceinline__ void store_gradients_of_chunk(const GradientThread<Shape>& t,
                                                         const ChunkPlace& place,
                                                         const typename Shape::ErrorOperands& of_errors,
                                                         const typename Shape::Errors& d_values) {
  using Product = typename Shape::Product;
  const auto& a = t.a;
  const auto leaving = t.stages.leaving();
  const Index kept = place.slot * a.sizes.padded_value;
  send_rows<Product>(of_errors, leaving.errors, t.gradients.d_errors + kept * Shape::steps, t.first_value,
                     a.sizes.padded_value);
  store_outputs<Product>(d_values, leaving.outputs,
                         step_rows(t.gradients.d_values, a.sizes.value, a.sizes, place), place.steps,
                         t.first_value, a.sizes.value, a.aligned_outputs);
}

/// Writes the gradient of the state before the segment.
template <class Shape>
__device__ __forceinline__ void end_gradient(const GradientThread<Shape>& t,
                                             const typename Shape::State& d_state) {
  const auto& gradients = t.gradients;
  const ChunkSegment& segment = t.segment;
  if constexpr (Shape::maps) {
    store_rows(
        d_state,
        gradients.d_segment_states + segment_state_place(segment, Shape::padded_key, segment.number - 1),
        t.value, Shape::padded_key);
  } else {
    // Shared memory of a block that has ended belongs to the next one.
    if (threadIdx.x % 32 == 0) ptx::copy_bulk_wait_read();
    if (gradients.d_initial_states != nullptr && segment.number == 0)
      store_state(d_state, gradients.d_initial_states + segment.state_place(), t.a.sizes, t.value);
  }
}

/// What a computing thread does.
template <class Shape>
__device__ __forceinline__ void compute_chunks_backward(const GradientThread<Shape>& t) {
  using Products = typename Shape::Products;
  typename Shape::State d_state;
  begin_gradient(t, d_state);
  for (Index chunk = t.segment.end; chunk-- > t.segment.begin;) {
    const typename Shape::Stage stage = t.stages.wait();
    const ChunkPlace place = t.segment.place(chunk);
    // 1.
    typename Shape::Errors d_errors, mended;
    multiply_gradients(t, stage, chunk, d_state, d_errors);
    // 2.
    mend_gradients<Shape>(stage, d_errors, mended);
    Products::template wait<0>(mended, d_state);
    typename Shape::ErrorOperands of_errors;
    make_operands<typename Shape::Product>(of_errors, mended);
    const typename Shape::Errors d_values = mended;
    // 3.
    update_gradient<Shape>(stage, mended, d_state);
    if (!Shape::maps) store_gradients_of_chunk(t, place, of_errors, d_values);
    Products::template wait<0>(d_state);
    t.stages.release();
  }
  end_gradient(t, d_state);
}

/// With `maps` nothing but what the segments add to the gradient of the state is made (segments.cuh).
template <class Product, int padded_key, int padded_tokens, bool maps>
__global__ __launch_bounds__(256, 1) void advance_gradients(
    ChunkedArguments<typename Product::Element> a, ChunkedGradients<typename Product::Element> gradients) {
  using Shape = Advance<Product, padded_key, padded_tokens, maps, true>;
  using Stages = typename Shape::Stages;
  // Segments do not cut groups, as sequences with long keys are one segment.
  static_assert(Shape::grouped == 1 || padded_key > longest_split_key);
  const int head = static_cast<int>(blockIdx.y), block_value = static_cast<int>(blockIdx.x) * Stages::values;
  const ChunkSegment segment(a.sizes, blockIdx.z, head);
  if (segment.number >= segment.count || (maps && segment.number == 0)) return;
  Stages stages;
  if (threadIdx.x >= Stages::threads) {
    load_chunks_backward<Shape>(stages, a, gradients.d_outputs, segment, block_value);
  } else {
    compute_chunks_backward(GradientThread<Shape>{{a, segment, stages, block_value}, gradients});
  }
}

}  // namespace orthornn::cuda
