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

template <class T, class Layout>
__global__ void __launch_bounds__((most_threads<T, Layout>))
    backward_kernel(Inputs<T> a, StagePlan plan, DeltaGradientPointers<T> gradients, Segments<T> segments) {
  T* const shared = reinterpret_cast<T*>(dynamic_shared_memory());
  const Head<T> head(a, plan, gradients.d_outputs, blockIdx.x, shared);
  const int lane = static_cast<int>(threadIdx.x % warp_size);
  const int warp = static_cast<int>(threadIdx.x / warp_size);
  const int warps = static_cast<int>(blockDim.x / warp_size);
  const int part = lane / Layout::columns_of_warp;
  const int own_column = warp * Layout::columns_of_warp + lane % Layout::columns_of_warp;
  const Index key = a.key;
  constexpr int row_size = Layout::capacity, all_sums = sums_of_warp<Layout>;
  T* const sums = shared + 2 * plan.size;
  T* const own_sums = sums + warp * all_sums;

  const auto state_at = [&](Index slot) {
    return segments.states +
           ((blockIdx.x * segments.tokens * (a.factors + 1) + slot) * Layout::words) * blockDim.x +
           threadIdx.x;
  };
  const auto keep = [&](const T(&state)[Layout::elements], Index slot) {
    store_words<Layout>(state, state_at(slot), blockDim.x);
  };
  const auto read = [&](T(&state)[Layout::elements], Index slot) {
    load_words<Layout>(state, state_at(slot), blockDim.x);
  };

  int turn = 0;  // the warp that sums over the warps next
  // Calls put(), which writes the sums of a warp, and then by one warp finish().
  const auto sum_over_warps = [&](const auto& put, const auto& finish) {
    __syncthreads();  // the sums before have been read
    put();
    __syncthreads();
    if (warp == turn) finish();
    turn = turn + 1 < warps ? turn + 1 : 0;
  };
  const auto total = [&](int i) {
    T sum = 0;
    for (int w = 0; w < warps; ++w) sum += sums[w * all_sums + i];
    return sum;
  };

  Index first_column = 0;
  do {
    const bool is_first = first_column == 0;
    const auto add = [&](T* to, T x) { *to = is_first ? x : *to + x; };
    const Index column = first_column + own_column;
    // Of the block's columns in a row of a stage. Columns beyond V add zeros to the sums.
    const auto own_number = [&](const T* row) { return column < a.value ? row[own_column] : T{0}; };
    T d_state[1][Layout::elements];
    load_column<Layout>(d_state[0], gradients.d_final_states, head, head.state(head.b), column, part);
    const Index count = head.sequence.count;
    for (Index segment = (count + segments.tokens - 1) / segments.tokens; segment-- > 0;) {
      const Index begin = segment * segments.tokens;
      const Index end = min(begin + segments.tokens, count);
      // 1.
      T state[1][Layout::elements];
      load_column<Layout>(state[0], segments.borders, head,
                          head.state(first_segment(head.sequence, head.b, segments.tokens) + segment), column,
                          part);
      Index slot = 0;
      for_each_stage<Direction::forward, Layout>(
          head, begin, end, first_column, [&](const Stage& stage, const T* memory) {
            const T* const removals = removal_rows(head, memory);
            for (int token = 0; token < stage.tokens; ++token) {
              if (stage.begins_tokens()) {
                decay<Layout>(head, memory, token, part, state);
                keep(state[0], slot++);
              }
              for (int step = 0; step < stage.steps; ++step) {
                const int i = token * stage.steps + step;
                T row[Layout::elements];
                load_row<Layout>(row, removals + i * Layout::row_stride, part);
                T product[1] = {part_of_dot(row, state[0])};
                sum_over_parts<Layout>(product);
                const T error = memory[plan.betas + i] *
                                (own_number(memory + plan.values + i * plan.columns) - product[0]);
                if (a.removals != nullptr)
                  load_row<Layout>(row, memory + plan.keys + i * Layout::row_stride, part);
#pragma unroll
                for (int e = 0; e < Layout::elements; ++e) state[0][e] += row[e] * error;
                keep(state[0], slot++);
              }
            }
          });
      // 2. The states come in the reverse order, each read while the one after it is used.
      T before[Layout::elements];
      read(before, --slot);
      const auto take_state = [&] {
#pragma unroll
        for (int e = 0; e < Layout::elements; ++e) state[0][e] = before[e];
        if (--slot >= 0) read(before, slot);
      };
      for_each_stage<Direction::backward, Layout>(
          head, begin, end, first_column, [&](const Stage& stage, T* memory) {
            const T* const removals = removal_rows(head, memory);
            for (int token = stage.tokens; token-- > 0;) {
              const Index place = head.at_token(stage.token + token);
              // a.
              if (stage.ends_tokens(a.factors)) {
                take_state();
                const T d_output = a.scale * own_number(memory + plan.d_outputs + token * plan.columns);
                T query[Layout::elements];
                load_row<Layout>(query, memory + plan.queries + token * Layout::row_stride, part);
#pragma unroll
                for (int e = 0; e < Layout::elements; ++e) {
                  state[0][e] *= d_output;
                  d_state[0][e] += query[e] * d_output;
                }
                sum_over_warps([&] { sum_over_columns<Layout>(state[0], own_sums, lane); },
                               [&] {
                                 for (Index k = lane; k < key; k += warp_size)
                                   add(gradients.d_queries + place * key + k, total(static_cast<int>(k)));
                               });
              }
              // b.
              for (int step = stage.steps; step-- > 0;) {
                const int i = token * stage.steps + step;
                const T* const key_row = memory + plan.keys + i * Layout::row_stride;
                const T beta = memory[plan.betas + i];
                take_state();
                T row[Layout::elements];
                load_row<Layout>(row, key_row, part);
                T products[2] = {T{0}, part_of_dot(row, d_state[0])};
                if (a.removals != nullptr) load_row<Layout>(row, removals + i * Layout::row_stride, part);
                products[0] = part_of_dot(row, state[0]);
                sum_over_parts<Layout>(products);
                const T error = own_number(memory + plan.values + i * plan.columns) - products[0];
                const T u = products[1], d_value = beta * u, scaled_error = beta * error;
                const Index step_place = head.at_step(stage.token + token, stage.first_step + step);
                if (part == 0 && column < a.value)
                  gradients.d_values[step_place * a.value + column] = d_value;
                const T d_beta = sum_over_lanes(u * error, Layout::columns_of_warp);
                sum_over_warps(
                    [&] {
                      T direct[Layout::elements];
                      if (a.removals == nullptr) {
#pragma unroll
                        for (int e = 0; e < Layout::elements; ++e)
                          direct[e] = d_state[0][e] * scaled_error - state[0][e] * d_value;
                      } else {
                        T back[Layout::elements];
#pragma unroll
                        for (int e = 0; e < Layout::elements; ++e) {
                          direct[e] = d_state[0][e] * scaled_error;
                          back[e] = -state[0][e] * d_value;
                        }
                        sum_over_columns<Layout>(back, own_sums + row_size, lane);
                      }
                      sum_over_columns<Layout>(direct, own_sums, lane);
                      if (lane == 0) own_sums[2 * row_size] = d_beta;
                    },
                    [&] {
                      // Each lane goes twice through numbers of its own.
                      T along = 0;
                      for (int k = lane; k < static_cast<int>(key); k += warp_size) {
                        T d_key = total(k);
                        if (a.removals != nullptr) {
                          const T d_removal = total(row_size + k);
                          add(gradients.d_removals + step_place * key + k, d_removal * key_row[k]);
                          d_key += d_removal * a.removals[step_place * key + k];
                        }
                        sums[k] = d_key;
                        along += d_key * key_row[k];
                      }
                      along = warp_sum(along);
                      const T factor = memory[plan.norm_factors + i];
                      for (int k = lane; k < static_cast<int>(key); k += warp_size) {
                        const T d_key = a.unit_keys ? factor * (sums[k] - along * key_row[k]) : sums[k];
                        add(gradients.d_keys + step_place * key + k, d_key);
                      }
                      const T sum = total(2 * row_size);
                      if (lane == 0) add(gradients.d_betas + step_place, sum);
                    });
#pragma unroll
                for (int e = 0; e < Layout::elements; ++e) d_state[0][e] -= row[e] * d_value;
              }
              // c.
              if (a.log_decays == nullptr || !stage.begins_tokens()) continue;
#pragma unroll
              for (int e = 0; e < Layout::elements; ++e) state[0][e] *= d_state[0][e];
              if (a.decays_of_rows) {
                sum_over_warps([&] { sum_over_columns<Layout>(state[0], own_sums, lane); },
                               [&] {
                                 for (Index k = lane; k < key; k += warp_size)
                                   add(gradients.d_log_decays + place * key + k, total(static_cast<int>(k)));
                               });
              } else {
                T sum = 0;
#pragma unroll
                for (int e = 0; e < Layout::elements; ++e) sum += state[0][e];
                sum = warp_sum(sum);
                sum_over_warps(
                    [&] {
                      if (lane == 0) own_sums[0] = sum;
                    },
                    [&] {
                      if (lane == 0) add(gradients.d_log_decays + place, total(0));
                    });
              }
              decay<Layout>(head, memory, token, part, d_state);
            }
          });
    }
    store_column<Layout>(d_state[0], gradients.d_initial_states, head, head.state(head.b), column, part);
    first_column += plan.columns;
  } while (first_column < a.value);
}

}  // namespace

template <class T>
void recurrent_delta_product_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  const TokenLayout& layout = work.layout;
  Saved& saved = work.saved;
  const Inputs<T> a(work);
  const Index states = layout.size() * a.heads;
  const Index tokens = segment_tokens(layout.longest(), a.factors);
  const TensorView<const T> borders = saved.top<T>(0);
  check_shape("states that the forward kept", borders.shape(),
              {segment_count(layout, tokens), a.heads, a.key, a.value});
  with_layout<T>(a.key, [&](auto state_layout) {
    using Layout = decltype(state_layout);
    if (states == 0) return;
    const Index warps = std::clamp<Index>((a.value + Layout::columns_of_warp - 1) / Layout::columns_of_warp,
                                          1, most_threads<T, Layout> / static_cast<int>(warp_size));
    const Index threads = warps * warp_size;
    const StagePlan plan =
        plan_stages<Layout>(a, layout.longest(), static_cast<int>(warps) * Layout::columns_of_warp, true);
    const Saved::Scope scope(saved);
    const TensorView<T> memory = saved.push<T>({states, tokens * (a.factors + 1), Layout::elements, threads});
    const Context& gpu = context(saved.device());
    launch(gpu, backward_kernel<T, Layout>,
           {.grid = static_cast<unsigned>(states),
            .block = static_cast<unsigned>(threads),
            .shared = static_cast<std::size_t>(2 * plan.size + warps * sums_of_warp<Layout>) * sizeof(T)},
           a, plan, DeltaGradientPointers<T>(gradients),
           Segments<T>{.borders = borders.data(),
                       .tokens = tokens,
                       .states = reinterpret_cast<Word<T>*>(memory.data())});
  });
  saved.pop(1);
}

template void recurrent_delta_product_backward<float>(const DeltaWork<float>&,
                                                      const DeltaProductGradients<float>&);
template void recurrent_delta_product_backward<double>(const DeltaWork<double>&,
                                                       const DeltaProductGradients<double>&);

}  // namespace orthornn::cuda
