// The recurrent delta product, forward. A block has some columns of one head of one sequence in its registers
// (cuda/delta/recurrent_steps.cuh) and goes through all tokens:
//
//   1. decay the columns, at a token's first factor
//   2. dot products with k * r, summed over K by shuffles
//   3. add beta k (v - sum)
//   4. after a token's last factor, dot products with q. They are summed together with those of the next
//      factor: so their shuffles cost no time of their own.
//
// Only 2. and 3. wait for one another. With few states nothing but their latency counts; with many, shared
// memory must be read less often, so a lane then has two columns. The sums are the same.

#include "cuda/delta/recurrent_delta_product.hpp"
#include "cuda/delta/recurrent_steps.cuh"

namespace orthornn::cuda {
namespace {

using namespace recurrent;

constexpr int threads = 128;

template <class T>
struct Results {
  T* outputs;
  T* final_states;
  /// The states between segments of so many tokens [segments, H, K, V]; null where nothing is kept.
  T* borders;
  Index segment_tokens;
};

/// Blocks that a multiprocessor has registers for: in float 128 a thread are enough.
template <class T, class Layout>
constexpr int blocks_at_once = Layout::elements* static_cast<int>(sizeof(T)) <= 64 ? 4 : 1;

/// Which columns of a state a lane has a part of.
template <class Layout>
struct OwnColumns {
  int part;
  /// The block's first column, and this lane's first one in the block.
  Index first;
  int own;

  __device__ __forceinline__ explicit OwnColumns(Index first_column) : first(first_column) {
    const int lane = static_cast<int>(threadIdx.x % warp_size);
    part = lane / Layout::columns_of_warp;
    own =
        static_cast<int>(threadIdx.x / warp_size) * Layout::columns_of_warp + lane % Layout::columns_of_warp;
  }
  /// Column c of this lane, in the block and in the state.
  __device__ __forceinline__ int in_block(int c) const {
    return own + c * (static_cast<int>(blockDim.x) / Layout::parts);
  }
  __device__ __forceinline__ Index in_state(int c) const { return first + in_block(c); }
};

/// The parts of the forward, with what a lane carries from token to token.
template <class T, class Layout, int Columns>
struct ForwardLane {
  const Head<T>& head;
  const Results<T>& to;
  const OwnColumns<Layout>& columns;
  T (&state)[Columns][Layout::elements];
  /// This lane's part of the last token's products with q, until they are summed. Negative: there is none.
  T (&output)[Columns];
  Index& output_token;
  /// The state that is kept next, and the token before which it is.
  Index &segment, &border;

  __device__ __forceinline__ void store(T* states, Index number) const {
#pragma unroll
    for (int c = 0; c < Columns; ++c)
      store_column<Layout>(state[c], states, head, head.state(number), columns.in_state(c), columns.part);
  }
  /// 1. Before a token's first factor.
  __device__ __forceinline__ void begin_token(const Stage& stage, const T* memory, int token) const {
    if (to.borders != nullptr && stage.token + token == border) {
      store(to.borders, segment);
      ++segment;
      border += to.segment_tokens;
    }
    decay<Layout>(head, memory, token, columns.part, state);
  }
  /// 2. and 3. for factor i of a stage, with the sums of 4. `row` is k * r of this factor, and then that of
  /// factor `next`.
  __device__ __forceinline__ void apply_factor(const T* memory, int i, int next,
                                               T (&row)[Layout::elements]) const {
    const StagePlan& plan = head.plan;
    T sums[2 * Columns], values[Columns];
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      sums[c] = part_of_dot(row, state[c]);
      sums[Columns + c] = output[c];
      values[c] = memory[plan.values + i * plan.columns + columns.in_block(c)];
    }
    const T beta = memory[plan.betas + i];
    T next_row[Layout::elements];
    load_row<Layout>(next_row, removal_rows(head, memory) + next * Layout::row_stride, columns.part);
    sum_over_parts<Layout>(sums);
    if (head.a.removals != nullptr)
      load_row<Layout>(row, memory + plan.keys + i * Layout::row_stride, columns.part);
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      const T error = beta * (values[c] - sums[c]);
#pragma unroll
      for (int e = 0; e < Layout::elements; ++e) state[c][e] += row[e] * error;
    }
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e) row[e] = next_row[e];
    write_output(sums + Columns);
  }
  /// 4. After a token's last factor.
  __device__ __forceinline__ void end_token(const Stage& stage, const T* memory, int token) const {
    T query[Layout::elements];
    load_row<Layout>(query, memory + head.plan.queries + token * Layout::row_stride, columns.part);
#pragma unroll
    for (int c = 0; c < Columns; ++c) output[c] = part_of_dot(query, state[c]);
    output_token = stage.token + token;
  }
  __device__ __forceinline__ void write_output(const T* sums) const {
    if (output_token < 0) return;
    const Inputs<T>& a = head.a;
    T* const outputs = to.outputs + head.at_token(output_token) * a.value + columns.first;
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      if (columns.part == 0 && columns.in_state(c) < a.value)
        outputs[columns.in_block(c)] = a.scale * sums[c];
    }
    output_token = -1;
  }
};

template <class T, class Layout, int Columns>
__global__ void __launch_bounds__(threads, (blocks_at_once<T, Layout>))
    forward_kernel(Inputs<T> a, StagePlan plan, Results<T> to, Index tiles) {
  const Head<T> head(a, plan, nullptr, blockIdx.x / tiles, reinterpret_cast<T*>(dynamic_shared_memory()));
  const OwnColumns<Layout> columns(blockIdx.x % tiles * plan.columns);
  T state[Columns][Layout::elements];
#pragma unroll
  for (int c = 0; c < Columns; ++c)
    load_column<Layout>(state[c], a.initial_states, head, head.state(head.b), columns.in_state(c),
                        columns.part);
  T output[Columns] = {};
  Index output_token = -1;
  Index segment = first_segment(head.sequence, head.b, to.segment_tokens), border = 0;
  const ForwardLane<T, Layout, Columns> lane{head, to, columns, state, output, output_token, segment, border};

  for_each_stage<Direction::forward, Layout>(
      head, 0, head.sequence.count, columns.first, [&](const Stage& stage, const T* memory) {
        const int steps = stage.tokens * stage.steps;
        int token = 0, step = 0;
        T row[Layout::elements];
        load_row<Layout>(row, removal_rows(head, memory), columns.part);
    // Unrolled by two, so that what was the next row takes the place of the row without a move.
#pragma unroll 2
        for (int i = 0; i < steps; ++i) {
          if (step == 0 && stage.begins_tokens()) lane.begin_token(stage, memory, token);
          lane.apply_factor(memory, i, i + 1 < steps ? i + 1 : i, row);
          if (++step < stage.steps) continue;
          if (stage.ends_tokens(a.factors)) lane.end_token(stage, memory, token);
          ++token;
          step = 0;
        }
      });
  sum_over_parts<Layout>(output);
  lane.write_output(output);
  lane.store(to.final_states, head.b);
}

/// Blocks for the columns of so many states, `Columns` in each lane.
template <class Layout, int Columns, class T>
void launch_forward(const Context& gpu, const Inputs<T>& a, const Results<T>& to, Index longest,
                    Index states) {
  constexpr Index granule = Layout::columns_of_warp * Columns;
  const Index warps = std::min<Index>((a.value + granule - 1) / granule, threads / warp_size);
  const Index columns = warps * granule;
  const Index tiles = (a.value + columns - 1) / columns;
  const StagePlan plan = plan_stages<Layout>(a, longest, static_cast<int>(columns), false);
  launch(gpu, forward_kernel<T, Layout, Columns>,
         {.grid = grid_size(states * tiles),
          .block = static_cast<unsigned>(warps * warp_size),
          .shared = 2 * static_cast<std::size_t>(plan.size) * sizeof(T)},
         a, plan, to, tiles);
}

}  // namespace

template <class T>
void recurrent_delta_product(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  const TokenLayout& layout = work.layout;
  Saved& saved = work.saved;
  const Inputs<T> a(work);
  Results<T> to{.outputs = results.outputs.data(),
                .final_states = data_or_null(results.final_states),
                .borders = nullptr,
                .segment_tokens = segment_tokens(layout.longest(), a.factors)};
  const Index states = layout.size() * a.heads;
  with_layout<T>(a.key, [&](auto state_layout) {
    using Layout = decltype(state_layout);
    if (results.keep) to.borders = saved.push<T>(borders_shape(work)).data();
    if (states * a.value == 0) return;
    const Context& gpu = context(saved.device());
    // Two columns a lane where they still fill the GPU: see above.
    constexpr int columns = Layout::elements > 16 ? 1 : 2;
    const Index lanes = states * ((a.value + columns - 1) / columns) * Layout::parts;
    if (lanes >= static_cast<Index>(gpu.multiprocessors()) * threads) {
      launch_forward<Layout, columns>(gpu, a, to, layout.longest(), states);
    } else {
      launch_forward<Layout, 1>(gpu, a, to, layout.longest(), states);
    }
  });
}

template <class T>
void push_kept_borders(const DeltaWork<T>& work) {
  work.saved.template push<T>(borders_shape(work));
}

template void push_kept_borders<float>(const DeltaWork<float>&);
template void push_kept_borders<double>(const DeltaWork<double>&);
template void recurrent_delta_product<float>(const DeltaWork<float>&, const DeltaResults<float>&);
template void recurrent_delta_product<double>(const DeltaWork<double>&, const DeltaResults<double>&);

}  // namespace orthornn::cuda
