#pragma once
// Second kernel of the chunked delta product: from chunk to chunk, the only part with an order in time.
//
// A block has 64 values of one head of one sequence, and each of its first four warps 16 of them. Values do
// not mix. So a warp keeps its 16 rows of the transposed state [V, K] in registers over the whole sequence,
// and every product below has a left operand that this warp itself has just computed. For each chunk, with
// everything transposed:
//
//   1. expected = S^T K^T, read = S^T Q^T, errors w = v - start * expected   [16, C], [16, tokens]
//   2. errors <- w (I + A)^-T                                                [16, C]
//   3. outputs = read * scale + errors P^T                                   [16, tokens]
//   4. S^T <- whole * S^T + (end * errors) K                                 [16, K]
//
// The other four warps load the next chunks meanwhile (chunk_stages.cuh). A computing warp has a scheduler of
// its own, and addresses take many dependent instructions: when these warps loaded too, a chunk took 6.3 us
// in place of 4.1.
//
// Once a warp, in shared memory: 16 rows of what is kept for the backward, [16, K] and [16, C], and outputs
// [tokens, 16], on their way to global memory.

#include "cuda/delta/chunk_stages.cuh"
#include "cuda/delta/segments.cuh"

namespace orthornn::cuda {

/// Rows `value` and `value` + 8 of a transposed state [K, V], or zeros without one.
template <int tiles>
__device__ __forceinline__ void load_state(Rows<tiles>& rows, const float* state, const ChunkSizes& sizes,
                                           int value) {
  rows.set_zero();
  if (state == nullptr) return;
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = 8 * j + lane_column() + i % 2, v = value + i / 2 * 8;
      const bool inside = k < sizes.key && v < sizes.value;
      const float x = state[inside ? static_cast<Index>(k) * sizes.value + v : 0];
      rows.tile[j][i] = inside ? x : 0.0F;
    }
  }
}
template <int tiles>
__device__ __forceinline__ void store_state(const Rows<tiles>& rows, float* state, const ChunkSizes& sizes,
                                            int value) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = 8 * j + lane_column() + i % 2, v = value + i / 2 * 8;
      if (k < sizes.key && v < sizes.value) state[static_cast<Index>(k) * sizes.value + v] = rows.tile[j][i];
    }
  }
}

/// The rows as left operands, and as those of other columns' scales.
template <class Product, int tiles>
__device__ __forceinline__ void make_operands(typename Product::Left (&to)[tiles / 2],
                                              const Rows<tiles>& rows) {
#pragma unroll
  for (int j = 0; j < tiles; j += 2) to[j / 2] = Product::left(rows.tile[j], rows.tile[j + 1]);
}

/// Multiplies column s of the rows by scales[s].
template <int tiles>
__device__ __forceinline__ void scale_columns(Rows<tiles>& rows, const float* scales) {
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
    const float2 scale = *reinterpret_cast<const float2*>(scales + 8 * j + lane_column());
    float(&x)[4] = rows.tile[j];
    x[0] *= scale.x, x[1] *= scale.y, x[2] *= scale.x, x[3] *= scale.y;
  }
}
template <int tiles>
__device__ __forceinline__ void scale(Rows<tiles>& rows, float factor) {
#pragma unroll
  for (auto& tile : rows.tile) {
#pragma unroll
    for (float& x : tile) x *= factor;
  }
}

/// Sends 16 rows of a warp to an image of `image_rows` rows in global memory, from `row` on. Rows of bfloat16
/// go by way of shared memory and bulk copies, one a panel, which write whole lines: keeping the states took
/// 0.09 ms without them and takes 0.03 (B 8, T 4096, 8 heads, K = V = 128). Rows of floats are written from
/// registers, 32 bytes by four lanes.
template <class Product, int count, int columns, int panel_rows>
__device__ __forceinline__ void send_rows(const typename Product::Left (&rows)[count],
                                          const Tile<Product, columns, panel_rows>& leaving,
                                          typename Product::Element* image, Index row, int image_rows) {
  static_assert(16 * count == columns);
  using Leaving = Tile<Product, columns, panel_rows>;
  if constexpr (!Leaving::packed) {
    const Leaving to{image + row * columns};
#pragma unroll
    for (int j = 0; j < count; ++j) to.store(rows[j], 0, 16 * j);
    return;
  }
  const bool first_lane = threadIdx.x % 32 == 0;
  if (first_lane) ptx::copy_bulk_wait_read();
  __syncwarp();
#pragma unroll
  for (int j = 0; j < count; ++j) leaving.store(rows[j], 0, 16 * j);
  ptx::fence_proxy_async();
  __syncwarp();
  if (!first_lane) return;
#pragma unroll
  for (int p = 0; p < columns / Leaving::row_size; ++p)
    ptx::copy_bulk_to_global(image + (p * image_rows + row) * Leaving::row_size,
                             leaving.data + p * Leaving::panel_size,
                             sizeof(typename Product::Element) * 16 * Leaving::row_size);
}

/// Sends 16 rows of a state, from `row` on, to its images in global memory.
template <class Product, int count, int columns, int panel_rows>
__device__ __forceinline__ void send_state(const typename Product::Left (&rows)[count],
                                           const Tile<Product, columns, panel_rows>& leaving,
                                           typename Product::Element* images, int row) {
  const int within = row % state_rows;
  send_rows<Product>(rows, leaving, images + static_cast<Index>(row - within) * columns, within, state_rows);
}

/// Writes 16 values of each token, or step, from `column` on, where column t of the rows is token t.
/// Where rows of outputs are whole vectors, they go by way of shared memory, so that a lane writes 16 bytes
/// of a token.
template <class Product, int tiles, class E>
__device__ __forceinline__ void store_outputs(const Rows<tiles>& rows, E* leaving,
                                              const ChunkRows<E>& outputs, int tokens, int column, int values,
                                              bool aligned) {
  if constexpr (Product::vector == 8) {
    if (aligned) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      // Two vectors a token. Four tokens have all banks between them.
      const auto place = [&](int token, int v) { return leaving + 16 * token + 8 * (v ^ (token / 4 & 1)); };
      __syncwarp();
#pragma unroll
      for (int j = 0; j < tiles; j += 2) {
        const auto two = Product::left(rows.tile[j], rows.tile[j + 1]);
        ptx::store_matrices_transposed(two.part, place(8 * j + lane % 8 + lane / 16 * 8, lane / 8 % 2));
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < tiles / 2; ++i) {
        const int token = 16 * i + lane / 2, begin = column + lane % 2 * 8;
        if (token < tokens && begin < values)
          *reinterpret_cast<uint4*>(outputs[token] + begin) =
              *reinterpret_cast<const uint4*>(place(token, lane % 2));
      }
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane_column() + i % 2, value = column + lane_row() + i / 2 * 8;
      if (token < tokens && value < values) outputs[token][value] = E(rows.tile[j][i]);
    }
  }
}

/// With `maps` nothing but the segments' maps is made (segments.cuh). In a forward, maps need no queries.
template <class P, int key, int tokens, bool only_maps, bool with_queries = !only_maps>
struct Advance {
  using Product = P;
  using E = typename Product::Element;
  using Left = typename Product::Left;
  static constexpr int padded_key = key, padded_tokens = tokens;
  static constexpr bool maps = only_maps;
  using Stages = ChunkStages<Product, padded_key, padded_tokens, !with_queries>;
  using Stage = typename Stages::Stage;
  using Scales = typename Stages::Scales;
  using Products = RowProducts<Product>;
  static constexpr int steps = Stages::steps, grouped = gathered_chunks<Product, padded_key>;
  /// Of a warp: 16 rows of values, with columns of keys, of steps and of tokens.
  using State = Rows<padded_key / 8>;
  using Errors = Rows<steps / 8>;
  using Reads = Rows<padded_tokens / 8>;
  using ErrorOperands = Left[steps / 16];
};

/// What a computing thread reads, and the rows of its warp.
template <class Shape>
struct AdvanceThread {
  const ChunkedArguments<typename Shape::E>& a;
  const ChunkSegment& segment;
  typename Shape::Stages& stages;
  /// The first value of the block, and of the warp among those of the block and among all.
  int block_value;
  int warp_value = static_cast<int>(threadIdx.x) / 32 * 16;
  int first_value = block_value + warp_value;
  /// Of this lane's first row.
  int value = first_value + lane_row();
};

/// What a loading thread does.
template <class Shape>
__device__ __forceinline__ void load_chunks(typename Shape::Stages& stages,
                                            const ChunkedArguments<typename Shape::E>& a,
                                            const ChunkSegment& segment, int block_value, bool of_matrix) {
  const auto values = [&](const ChunkPlace& place) {
    return step_rows(a.values, a.sizes.value, a.sizes, place);
  };
  const ChunkPlace begin = segment.place(segment.begin);
  typename Shape::Stages::template Loading<Shape::steps> loading(stages, a, begin, values(begin), block_value,
                                                                 a.aligned_values);
  for (Index chunk = segment.begin; chunk < segment.end; ++chunk) {
    const ChunkPlace place = segment.place(chunk);
    loading.load(place, values(place), of_matrix ? 0 : place.steps);
  }
}

/// The state before the segment.
template <class Shape>
__device__ __forceinline__ void begin_state(const AdvanceThread<Shape>& t, bool of_matrix,
                                            typename Shape::State& state) {
  constexpr int padded_key = Shape::padded_key;
  const auto& a = t.a;
  const ChunkSegment& segment = t.segment;
  if (of_matrix) {
    set_identity(state, t.value - a.sizes.padded_value);
  } else if (segment.number == 0 && (Shape::maps || segment.count == 1)) {
    load_state(state, a.initial_states == nullptr ? nullptr : a.initial_states + segment.state_place(),
               a.sizes, t.value);
    if (Shape::maps)
      store_rows(state, a.segment_states + segment_state_place(segment, padded_key, 0), t.value, padded_key);
  } else if (Shape::maps) {
    state.set_zero();
  } else {
    load_segment_state(state, a.segment_states + segment_state_place(segment, padded_key, segment.number),
                       t.value);
  }
}

/// Step 1: starts the products of the state with keys and with queries. Keeps the state for a backward.
template <class Shape>
__device__ __forceinline__ void multiply_state(const AdvanceThread<Shape>& t,
                                               const typename Shape::Stage& stage, Index chunk,
                                               const typename Shape::State& state,
                                               typename Shape::Errors& errors, typename Shape::Reads& reads) {
  using Products = typename Shape::Products;
  const auto& a = t.a;
  typename Shape::Left of_state[Shape::padded_key / 16];
  make_operands<typename Shape::Product>(of_state, state);
  Products::fence();
  Products::template with_all_columns<Shape::steps, false>(errors.tile, of_state, stage.keys);
  Products::commit();
  if constexpr (!Shape::maps)
    Products::template with_all_columns<Shape::padded_tokens, false>(reads.tile, of_state, stage.queries);
  Products::commit();
  if (!Shape::maps && a.states != nullptr && chunk % Shape::grouped == 0)
    send_state<typename Shape::Product>(of_state, t.stages.leaving().state,
                                        a.states + t.segment.template slot_of_group<Shape::grouped>(chunk) *
                                                       a.sizes.padded_value * Shape::padded_key,
                                        t.first_value);
}

/// Step 1: values minus what the state expects of them.
template <class Shape>
__device__ __forceinline__ void find_errors(const AdvanceThread<Shape>& t, const typename Shape::Stage& stage,
                                            typename Shape::Errors& errors) {
  constexpr int steps = Shape::steps;
  typename Shape::ErrorOperands values;
#pragma unroll
  for (int n = 0; n < steps; n += 16) values[n / 16] = stage.values.left_transposed(n, t.warp_value);
  Shape::Products::template wait<1>(errors);
#pragma unroll
  for (int n = 0; n < steps; n += 16) {
    float v[2][4];
    Shape::Product::unpack(values[n / 16], v[0], v[1]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float2 start =
          *reinterpret_cast<const float2*>(stage.scales + Shape::Scales::start + n + 8 * j + lane_column());
      float(&x)[4] = errors.tile[n / 8 + j];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = v[j][i] - (i % 2 == 0 ? start.x : start.y) * x[i];
    }
  }
}

/// Step 2: starts the product with the inverse, which mends errors by those before.
template <class Shape>
__device__ __forceinline__ void mend_errors(const typename Shape::Stage& stage,
                                            const typename Shape::Errors& errors,
                                            typename Shape::Errors& mended) {
  using Products = typename Shape::Products;
  typename Shape::ErrorOperands operands;
  make_operands<typename Shape::Product>(operands, errors);
  Products::fence();
  each_block<Shape::steps, Products::granule>([&](auto first, auto from) {
#pragma unroll
    for (int n = from; n < Shape::steps; n += Products::granule)
      Products::template with_rows<Products::granule, (first > 0)>(mended.tile + n / 8, operands[first / 16],
                                                                   stage.inverse, n, first);
  });
  Products::commit();
}

/// Step 3: starts what the errors add to the outputs.
template <class Shape>
__device__ __forceinline__ void add_scores(const typename Shape::Stage& stage,
                                           const typename Shape::ErrorOperands& of_errors,
                                           typename Shape::Reads& reads) {
  using Products = typename Shape::Products;
  scale_columns(reads, stage.scales + Shape::Scales::read);
  Products::fence();
  // Half of P is 0 for n = 1. With products of parts of `reads` the compiler waits after each product.
  Products::template with_all_columns<Shape::padded_tokens, true>(reads.tile, of_errors, stage.scores);
}

/// Step 4: starts what the errors add to the next state.
template <class Shape>
__device__ __forceinline__ void update_state(const AdvanceThread<Shape>& t,
                                             const typename Shape::Stage& stage,
                                             typename Shape::Errors& errors, typename Shape::State& state) {
  using Products = typename Shape::Products;
  scale_columns(errors, stage.scales + Shape::Scales::end);
  typename Shape::ErrorOperands updates;
  make_operands<typename Shape::Product>(updates, errors);
  if (t.a.log_decays != nullptr) scale(state, stage.scales[Shape::Scales::whole]);
  Products::fence();
  Products::template over_all_columns<Shape::Stages::key_columns, true>(state.tile, updates, stage.keys);
  Products::commit();
}

/// Writes the outputs of a chunk, and for a backward its errors.
template <class Shape>
__device__ __forceinline__ void store_chunk(const AdvanceThread<Shape>& t, const ChunkPlace& place,
                                            const typename Shape::ErrorOperands& of_errors,
                                            typename Shape::Reads& reads) {
  using Product = typename Shape::Product;
  const auto& a = t.a;
  const Index kept = place.slot * a.sizes.padded_value;
  if (a.errors != nullptr)
    send_rows<Product>(of_errors, t.stages.leaving().errors, a.errors + kept * Shape::steps, t.first_value,
                       a.sizes.padded_value);
  Shape::Products::template wait<1>(reads);
  store_outputs<Product>(reads, t.stages.leaving().outputs,
                         token_rows(a.outputs, a.sizes.value, a.sizes, place), place.tokens, t.first_value,
                         a.sizes.value, a.aligned_outputs);
}

/// Writes the state after the segment.
template <class Shape>
__device__ __forceinline__ void end_state(const AdvanceThread<Shape>& t, bool of_matrix,
                                          const typename Shape::State& state) {
  constexpr int padded_key = Shape::padded_key;
  const auto& a = t.a;
  const ChunkSegment& segment = t.segment;
  if constexpr (Shape::maps) {
    if (of_matrix) {
      store_rows(state, a.segment_maps + segment_map_place(segment, padded_key),
                 t.value - a.sizes.padded_value, map_pitch(padded_key));
    } else {
      store_rows(state, a.segment_states + segment_state_place(segment, padded_key, segment.number + 1),
                 t.value, padded_key);
    }
  } else {
    // Shared memory of a block that has ended belongs to the next one.
    if (threadIdx.x % 32 == 0) ptx::copy_bulk_wait_read();
    if (a.final_states != nullptr && segment.is_last())
      store_state(state, a.final_states + segment.state_place(), a.sizes, t.value);
  }
}

/// What a computing thread does.
template <class Shape>
__device__ __forceinline__ void compute_chunks(const AdvanceThread<Shape>& t, bool of_matrix) {
  using Products = typename Shape::Products;
  typename Shape::State state;
  begin_state(t, of_matrix, state);
  for (Index chunk = t.segment.begin; chunk < t.segment.end; ++chunk) {
    const typename Shape::Stage stage = t.stages.wait();
    const ChunkPlace place = t.segment.place(chunk);
    // 1.
    typename Shape::Errors errors, mended;
    typename Shape::Reads reads;
    multiply_state(t, stage, chunk, state, errors, reads);
    find_errors(t, stage, errors);
    // 2.
    mend_errors<Shape>(stage, errors, mended);
    Products::template wait<0>(mended, reads);
    // 3.
    typename Shape::ErrorOperands of_errors;
    if constexpr (!Shape::maps) {
      make_operands<typename Shape::Product>(of_errors, mended);
      add_scores<Shape>(stage, of_errors, reads);
    }
    Products::commit();
    // 4.
    update_state(t, stage, mended, state);
    if constexpr (!Shape::maps) store_chunk(t, place, of_errors, reads);
    Products::template wait<0>(state);
    t.stages.release();
  }
  end_state(t, of_matrix, state);
}

template <class Product, int padded_key, int padded_tokens, bool maps>
__global__
__launch_bounds__(256, ChunkStages<Product, padded_key, padded_tokens, maps>::blocks) void advance_chunks(
    ChunkedArguments<typename Product::Element> a) {
  using Shape = Advance<Product, padded_key, padded_tokens, maps>;
  using Stages = typename Shape::Stages;
  const int head = static_cast<int>(blockIdx.y), block_value = static_cast<int>(blockIdx.x) * Stages::values;
  const ChunkSegment segment(a.sizes, blockIdx.z, head);
  // In a map, the rows after those of values belong to the matrix.
  const bool of_matrix = maps && block_value >= a.sizes.padded_value;
  if (segment.number >= segment.count || (maps && !needs_map(segment, of_matrix))) return;
  Stages stages;
  if (threadIdx.x >= Stages::threads) {
    if constexpr (Stages::blocks > 1) Shape::Products::template release_registers<48>();
    load_chunks<Shape>(stages, a, segment, block_value, of_matrix);
  } else {
    if constexpr (Stages::blocks > 1) Shape::Products::template take_registers<208>();
    compute_chunks(AdvanceThread<Shape>{a, segment, stages, block_value}, of_matrix);
  }
}

}  // namespace orthornn::cuda
