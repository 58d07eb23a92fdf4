// The gradients of the recurrent delta product. A block has one head of one sequence. It goes through the
// columns of its state a tile at a time, and for each tile through the segments of tokens from the last to
// the first (cuda/delta/recurrent_steps.cuh):
//
//   1. The states of the segment, forward from the kept one. Each thread keeps its part of them in global
//      memory, where only it reads them again.
//   2. From the last token to the first, with dS in registers:
//        a. dS += c q dO^T;  dq = c S dO
//        b. for each factor, from the last to the first, with S before it: e = v - S^T (k * r),
//           u = dS^T k, dv = beta u, dbeta = u . e, and from a = beta dS e and b = -S dv:
//           dk = a + b * r, dr = b * k;  dS -= (k * r) dv^T
//        c. da = the sum of dS * S over the columns, or over all of it;  dS *= e^a
//
// dq, dk, dr, dbeta and da are sums over the columns. They are summed over the lanes of a warp, in shared
// memory over the warps, and in global memory over the tiles, each in a fixed order. The warps take turns
// with the second sum.
//
//   shared memory      two stages, and for each warp its sums: [2 capacity + 1]

#include "cuda/core/reduce_scatter.cuh"
#include "cuda/delta/recurrent_delta_product.hpp"
#include "cuda/delta/recurrent_steps.cuh"

namespace orthornn::cuda {
namespace {

using namespace recurrent;

/// What the forward kept, and memory for the states of a segment.
template <class T>
struct Segments {
  const T* borders;
  Index tokens;
  /// [states, tokens (n + 1), words of a lane, threads]
  Word<T>* states;
};

/// The most threads of a block: with 256, a thread has the 220 registers that it needs in float. Half as many
/// where the sums of a warp are long, for their memory.
template <class T, class Layout>
constexpr int most_threads = Layout::capacity* static_cast<int>(sizeof(T)) <= 4096 ? 256 : 128;
template <class Layout>
constexpr int sums_of_warp = 2 * Layout::capacity + 1;

/// Sums rows over the columns of the warp into to[k].
template <class Layout, class T>
__device__ __forceinline__ void sum_over_columns(T (&rows)[Layout::elements], T* to, int lane) {
  using Reduce = ReduceScatter<Layout::elements, Layout::columns_of_warp>;
  static_assert(Reduce::copies == 1);
  Reduce::run(rows, static_cast<unsigned>(lane));
  const int first = Reduce::first(static_cast<unsigned>(lane));
#pragma unroll
  for (int i = 0; i < Reduce::left; ++i) to[Layout::row(lane / Layout::columns_of_warp, first + i)] = rows[i];
}

/// The second sums, over the warps. `all` has those of each warp.
template <class T, class Layout>
struct BlockSums {
  T* all;
  int warp = static_cast<int>(threadIdx.x / warp_size);
  int warps = static_cast<int>(blockDim.x / warp_size);
  T* own = all + warp * sums_of_warp<Layout>;
  /// The warp that sums over the warps next.
  int turn = 0;

  /// Calls put(), which writes the sums of a warp, and then by one warp finish().
  template <class Put, class Finish>
  __device__ __forceinline__ void over_warps(const Put& put, const Finish& finish) {
    __syncthreads();  // the sums before have been read
    put();
    __syncthreads();
    if (warp == turn) finish();
    turn = turn + 1 < warps ? turn + 1 : 0;
  }
  __device__ __forceinline__ T total(int i) const {
    T sum = 0;
    for (int w = 0; w < warps; ++w) sum += all[w * sums_of_warp<Layout> + i];
    return sum;
  }
};

/// What a thread has of a tile of columns.
template <class T, class Layout>
struct TileThread {
  const Head<T>& head;
  const DeltaGradientPointers<T>& gradients;
  const Segments<T>& segments;
  BlockSums<T, Layout>& sums;
  Index first_column;
  const Inputs<T>& a = head.a;
  const StagePlan& plan = head.plan;
  int lane = static_cast<int>(threadIdx.x % warp_size);
  int part = lane / Layout::columns_of_warp;
  /// Among the block's columns, and among all.
  int own_column = sums.warp * Layout::columns_of_warp + lane % Layout::columns_of_warp;
  Index column = first_column + own_column;

  /// Of the block's columns in a row of a stage. Columns beyond V add zeros to the sums.
  __device__ __forceinline__ T own_number(const T* row) const {
    return column < a.value ? row[own_column] : T{0};
  }
  /// The third sum, over the tiles.
  __device__ __forceinline__ void add(T* to, T x) const { *to = first_column == 0 ? x : *to + x; }
};

/// A thread's part of the states of a segment, and of the gradient of the state.
template <class T, class Layout>
struct SegmentStates {
  const TileThread<T, Layout>& t;
  /// How many are kept.
  Index slot;
  T state[1][Layout::elements], d_state[1][Layout::elements];
  T before[Layout::elements];

  __device__ __forceinline__ explicit SegmentStates(const TileThread<T, Layout>& thread) : t(thread) {}

  __device__ __forceinline__ void keep() { store_words<Layout>(state[0], at(slot++), blockDim.x); }
  /// Before the first `take`.
  __device__ __forceinline__ void begin_taking() { load_words<Layout>(before, at(--slot), blockDim.x); }
  /// The states come in the reverse order, each read while the one after it is used.
  __device__ __forceinline__ void take() {
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e) state[0][e] = before[e];
    if (--slot >= 0) load_words<Layout>(before, at(slot), blockDim.x);
  }

 private:
  __device__ __forceinline__ Word<T>* at(Index number) const {
    return t.segments.states +
           ((blockIdx.x * t.segments.tokens * (t.a.factors + 1) + number) * Layout::words) * blockDim.x +
           threadIdx.x;
  }
};

/// Step 1, for a stage.
template <class T, class Layout>
__device__ __forceinline__ void keep_states(const TileThread<T, Layout>& t, SegmentStates<T, Layout>& s,
                                            const Stage& stage, const T* memory) {
  const StagePlan& plan = t.plan;
  const T* const removals = removal_rows(t.head, memory);
  for (int token = 0; token < stage.tokens; ++token) {
    if (stage.begins_tokens()) {
      decay<Layout>(t.head, memory, token, t.part, s.state);
      s.keep();
    }
    for (int step = 0; step < stage.steps; ++step) {
      const int i = token * stage.steps + step;
      T row[Layout::elements];
      load_row<Layout>(row, removals + i * Layout::row_stride, t.part);
      T product[1] = {part_of_dot(row, s.state[0])};
      sum_over_parts<Layout>(product);
      const T error =
          memory[plan.betas + i] * (t.own_number(memory + plan.values + i * plan.columns) - product[0]);
      if (t.a.removals != nullptr) load_row<Layout>(row, memory + plan.keys + i * Layout::row_stride, t.part);
#pragma unroll
      for (int e = 0; e < Layout::elements; ++e) s.state[0][e] += row[e] * error;
      s.keep();
    }
  }
}

/// Sums a row of each lane, which is destroyed, into row `place` of a gradient [R, H, K].
template <class T, class Layout>
__device__ __forceinline__ void add_row(const TileThread<T, Layout>& t, T (&row)[Layout::elements],
                                        T* gradient, Index place) {
  const Index key = t.a.key;
  t.sums.over_warps([&] { sum_over_columns<Layout>(row, t.sums.own, t.lane); },
                    [&] {
                      for (Index k = t.lane; k < key; k += warp_size)
                        t.add(gradient + place * key + k, t.sums.total(static_cast<int>(k)));
                    });
}

/// Step 2a, for token `token` of a stage.
template <class T, class Layout>
__device__ __forceinline__ void through_output(const TileThread<T, Layout>& t, SegmentStates<T, Layout>& s,
                                               const Stage& stage, const T* memory, int token) {
  s.take();
  const T d_output = t.a.scale * t.own_number(memory + t.plan.d_outputs + token * t.plan.columns);
  T query[Layout::elements];
  load_row<Layout>(query, memory + t.plan.queries + token * Layout::row_stride, t.part);
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) {
    s.state[0][e] *= d_output;
    s.d_state[0][e] += query[e] * d_output;
  }
  add_row(t, s.state[0], t.gradients.d_queries, t.head.at_token(stage.token + token));
}

/// Of a factor, from a lane's column; d_beta is the sum over the columns of the warp.
template <class T>
struct FactorGradient {
  T d_value, scaled_error, d_beta;
};

/// Writes the sums of a warp: of a + b where r is 1, else of a and of b; and of dbeta.
template <class T, class Layout>
__device__ __forceinline__ void put_factor(const TileThread<T, Layout>& t, const SegmentStates<T, Layout>& s,
                                           const FactorGradient<T>& of_column) {
  T direct[Layout::elements];
  if (t.a.removals == nullptr) {
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e)
      direct[e] = s.d_state[0][e] * of_column.scaled_error - s.state[0][e] * of_column.d_value;
  } else {
    T back[Layout::elements];
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e) {
      direct[e] = s.d_state[0][e] * of_column.scaled_error;
      back[e] = -s.state[0][e] * of_column.d_value;
    }
    sum_over_columns<Layout>(back, t.sums.own + Layout::capacity, t.lane);
  }
  sum_over_columns<Layout>(direct, t.sums.own, t.lane);
  if (t.lane == 0) t.sums.own[2 * Layout::capacity] = of_column.d_beta;
}

/// By one warp: dk, dr and dbeta of factor i of a stage, from the sums of all warps. `place` is `at_step`.
template <class T, class Layout>
__device__ __forceinline__ void finish_factor(const TileThread<T, Layout>& t, const T* memory, int i,
                                              Index place) {
  const Inputs<T>& a = t.a;
  const BlockSums<T, Layout>& sums = t.sums;
  const Index key = a.key;
  const T* const key_row = memory + t.plan.keys + i * Layout::row_stride;
  // Each lane goes twice through numbers of its own.
  T along = 0;
  for (int k = t.lane; k < static_cast<int>(key); k += warp_size) {
    T d_key = sums.total(k);
    if (a.removals != nullptr) {
      const T d_removal = sums.total(Layout::capacity + k);
      t.add(t.gradients.d_removals + place * key + k, d_removal * key_row[k]);
      d_key += d_removal * a.removals[place * key + k];
    }
    sums.all[k] = d_key;
    along += d_key * key_row[k];
  }
  along = warp_sum(along);
  const T factor = memory[t.plan.norm_factors + i];
  for (int k = t.lane; k < static_cast<int>(key); k += warp_size) {
    const T d_key = a.unit_keys ? factor * (sums.all[k] - along * key_row[k]) : sums.all[k];
    t.add(t.gradients.d_keys + place * key + k, d_key);
  }
  const T d_beta = sums.total(2 * Layout::capacity);
  if (t.lane == 0) t.add(t.gradients.d_betas + place, d_beta);
}

/// Step 2b, for factor `step` of token `token` of a stage.
template <class T, class Layout>
__device__ __forceinline__ void through_factor(const TileThread<T, Layout>& t, SegmentStates<T, Layout>& s,
                                               const Stage& stage, const T* memory, int token, int step) {
  const Inputs<T>& a = t.a;
  const StagePlan& plan = t.plan;
  const int i = token * stage.steps + step;
  const T beta = memory[plan.betas + i];
  s.take();
  T row[Layout::elements];
  load_row<Layout>(row, memory + plan.keys + i * Layout::row_stride, t.part);
  T products[2] = {T{0}, part_of_dot(row, s.d_state[0])};
  if (a.removals != nullptr)
    load_row<Layout>(row, removal_rows(t.head, memory) + i * Layout::row_stride, t.part);
  products[0] = part_of_dot(row, s.state[0]);
  sum_over_parts<Layout>(products);
  const T error = t.own_number(memory + plan.values + i * plan.columns) - products[0];
  const T u = products[1], d_value = beta * u;
  const Index place = t.head.at_step(stage.token + token, stage.first_step + step);
  if (t.part == 0 && t.column < a.value) t.gradients.d_values[place * a.value + t.column] = d_value;
  const FactorGradient<T> of_column{.d_value = d_value,
                                    .scaled_error = beta * error,
                                    .d_beta = sum_over_lanes(u * error, Layout::columns_of_warp)};
  t.sums.over_warps([&] { put_factor(t, s, of_column); }, [&] { finish_factor(t, memory, i, place); });
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) s.d_state[0][e] -= row[e] * d_value;
}

/// Step 2c, for token `token` of a stage.
template <class T, class Layout>
__device__ __forceinline__ void through_decay(const TileThread<T, Layout>& t, SegmentStates<T, Layout>& s,
                                              const Stage& stage, const T* memory, int token) {
  const Index place = t.head.at_token(stage.token + token);
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) s.state[0][e] *= s.d_state[0][e];
  if (t.a.decays_of_rows) {
    add_row(t, s.state[0], t.gradients.d_log_decays, place);
  } else {
    T sum = 0;
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e) sum += s.state[0][e];
    sum = warp_sum(sum);
    t.sums.over_warps(
        [&] {
          if (t.lane == 0) t.sums.own[0] = sum;
        },
        [&] {
          if (t.lane == 0) t.add(t.gradients.d_log_decays + place, t.sums.total(0));
        });
  }
  decay<Layout>(t.head, memory, token, t.part, s.d_state);
}

/// Step 2, for a stage.
template <class T, class Layout>
__device__ __forceinline__ void go_back(const TileThread<T, Layout>& t, SegmentStates<T, Layout>& s,
                                        const Stage& stage, const T* memory) {
  for (int token = stage.tokens; token-- > 0;) {
    if (stage.ends_tokens(t.a.factors)) through_output(t, s, stage, memory, token);
    for (int step = stage.steps; step-- > 0;) through_factor(t, s, stage, memory, token, step);
    if (t.a.log_decays != nullptr && stage.begins_tokens()) through_decay(t, s, stage, memory, token);
  }
}

template <class T, class Layout>
__global__ void __launch_bounds__((most_threads<T, Layout>))
    backward_kernel(Inputs<T> a, StagePlan plan, DeltaGradientPointers<T> gradients, Segments<T> segments) {
  T* const shared = reinterpret_cast<T*>(dynamic_shared_memory());
  const Head<T> head(a, plan, gradients.d_outputs, blockIdx.x, shared);
  BlockSums<T, Layout> sums{shared + 2 * plan.size};
  Index first_column = 0;
  do {
    const TileThread<T, Layout> t{head, gradients, segments, sums, first_column};
    SegmentStates<T, Layout> s(t);
    load_column<Layout>(s.d_state[0], gradients.d_final_states, head, head.state(head.b), t.column, t.part);
    const Index count = head.sequence.count;
    for (Index segment = (count + segments.tokens - 1) / segments.tokens; segment-- > 0;) {
      const Index begin = segment * segments.tokens;
      const Index end = min(begin + segments.tokens, count);
      // 1.
      load_column<Layout>(s.state[0], segments.borders, head,
                          head.state(first_segment(head.sequence, head.b, segments.tokens) + segment),
                          t.column, t.part);
      s.slot = 0;
      for_each_stage<Direction::forward, Layout>(
          head, begin, end, first_column,
          [&](const Stage& stage, const T* memory) { keep_states(t, s, stage, memory); });
      // 2.
      s.begin_taking();
      for_each_stage<Direction::backward, Layout>(
          head, begin, end, first_column,
          [&](const Stage& stage, const T* memory) { go_back(t, s, stage, memory); });
    }
    store_column<Layout>(s.d_state[0], gradients.d_initial_states, head, head.state(head.b), t.column,
                         t.part);
    first_column += plan.columns;
  } while (first_column < a.value);
}

/// As many as the columns need, as far as the GPU has memory for their sums: 99 KB a block with compute
/// capability 8.6 and 8.9. It depends on sizes and the GPU only.
template <class T, class Layout>
Index warps_of_block(const DeltaWork<T>& work) {
  constexpr int most_warps = most_threads<T, Layout> / static_cast<int>(warp_size);
  constexpr std::size_t stages = 2 * most_bytes_of_stage<T, Layout>(most_warps * Layout::columns_of_warp);
  constexpr std::size_t sums = sums_of_warp<Layout> * sizeof(T);
  const std::size_t memory = context(work.saved.device()).shared_memory_per_block();
  Index warps = std::clamp<Index>((work.sizes.value + Layout::columns_of_warp - 1) / Layout::columns_of_warp,
                                  1, most_warps);
  while (warps > 1 && stages + static_cast<std::size_t>(warps) * sums > memory) --warps;
  return warps;
}

/// Of the states in a segment that each thread keeps.
template <class T, class Layout>
Shape states_of_segments(const DeltaWork<T>& work) {
  const auto [factors, heads, key, value] = work.sizes;
  return {work.layout.size() * heads, segment_tokens(work.layout.longest(), factors) * (factors + 1),
          Layout::elements, warps_of_block<T, Layout>(work) * warp_size};
}

}  // namespace

template <class T>
SavedMemory memory_of_recurrence(const DeltaWork<T>& work) {
  SavedMemory memory{
      .kept = Saved::bytes_of(borders_shape(work), sizeof(T)), .keeping = 0, .forward = 0, .backward = 0};
  with_layout<T>(work.sizes.key, [&](auto state_layout) {
    memory.backward = Saved::bytes_of(states_of_segments<T, decltype(state_layout)>(work), sizeof(T));
  });
  return memory;
}

template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  const TokenLayout& layout = work.layout;
  Saved& saved = work.saved;
  const Inputs<T> a(work);
  const Index states = layout.size() * a.heads;
  const Index tokens = segment_tokens(layout.longest(), a.factors);
  const TensorView<const T> borders = saved.top<T>(0);
  check_shape("states that the forward kept", borders.shape(), borders_shape(work));
  with_layout<T>(a.key, [&](auto state_layout) {
    using Layout = decltype(state_layout);
    if (states == 0) return;
    const Index warps = warps_of_block<T, Layout>(work), threads = warps * warp_size;
    const StagePlan plan =
        plan_stages<Layout>(a, layout.longest(), static_cast<int>(warps) * Layout::columns_of_warp, true);
    const Saved::Scope scope(saved);
    const TensorView<T> memory = saved.push<T>(states_of_segments<T, Layout>(work));
    const Context& gpu = context(saved.device());
    launch(gpu, backward_kernel<T, Layout>,
           {.grid = grid_size(states),
            .block = static_cast<unsigned>(threads),
            .shared = static_cast<std::size_t>(2 * plan.size + warps * sums_of_warp<Layout>) * sizeof(T)},
           a, plan, DeltaGradientPointers<T>(gradients),
           Segments<T>{.borders = borders.data(),
                       .tokens = tokens,
                       .states = reinterpret_cast<Word<T>*>(memory.data())});
  });
  saved.pop(1);
}

template SavedMemory memory_of_recurrence<float>(const DeltaWork<float>&);
template SavedMemory memory_of_recurrence<double>(const DeltaWork<double>&);
template void recurrent_delta_product_backward<float>(const DeltaWork<float>&,
                                                      const DeltaProductGradients<float>&);
template void recurrent_delta_product_backward<double>(const DeltaWork<double>&,
                                                       const DeltaProductGradients<double>&);

}  // namespace orthornn::cuda
