#pragma once
// What the forward and the backward of the recurrent delta product share.
//
// A column of a state [K, V] is one value. Columns do not mix. A column lies in the registers of `parts`
// lanes of one warp, and neighbouring lanes have neighbouring columns. A sum over K is a few multiply-adds in
// each lane and log2(parts) shuffles, without a barrier.
//
// All columns read the same keys. So a block copies a stage, the next few factors, to shared memory by
// cp.async while it computes with the stage before. Then it prepares the stage: unit keys, k * r, and e^a.
//
//   shared memory, twice     rows of K, with zeros up to the capacity of the layout and 16 bytes more
//     keys, removals         a row each factor; removals become k * r; none where there are none
//     queries, row decays    a row each token
//     values                 the block's columns of each factor
//     d_outputs              the block's columns of each token; in the backward
//     betas, norm factors    a number each factor
//     decays                 a number each token

#include <algorithm>
#include <cmath>
#include <string>

#include "cuda/core/launch.hpp"
#include "cuda/core/pack.cuh"
#include "cuda/core/ptx.cuh"
#include "cuda/delta/delta_pointers.cuh"
#include "cuda/delta/token_sequence.cuh"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda::recurrent {

/// How a column of up to `capacity` rows lies in registers: `Elements` rows in each of `Parts` lanes.
template <class T, int Parts, int Elements>
struct StateLayout {
  static constexpr int parts = Parts;
  static constexpr int elements = Elements;
  static constexpr int capacity = parts * elements;
  static constexpr int columns_of_warp = static_cast<int>(warp_size) / parts;
  /// Lanes read words of 16 bytes from shared memory: words part, part + parts, .. of a row.
  static constexpr int width = 16 / sizeof(T);
  static constexpr int words = elements / width;
  /// From one row in shared memory to the next. 16 bytes more than a row needs: the lanes that prepare
  /// neighbouring rows use other banks.
  static constexpr int row_stride = capacity + width;

  static __device__ __forceinline__ int row(int part, int element) {
    return (part + element / width * parts) * width + element % width;
  }
};

/// Calls body(layout) for the layout of keys of this size. 16 rows a lane, by estimate: their 32
/// multiply-adds of a factor take about as long as one exchange more would. Throws ValueError where there
/// is none.
template <class T, class Body>
void with_layout(Index key, const Body& body) {
  if (key <= 64) return body(StateLayout<T, 4, 16>());
  if (key <= 128) return body(StateLayout<T, 8, 16>());
  if (key <= 256) return body(StateLayout<T, 16, 16>());
  if (key <= 512) return body(StateLayout<T, 32, 16>());
  if (key <= 1024) return body(StateLayout<T, 32, 32>());
  throw ValueError("keys have " + std::to_string(key) +
                   " numbers; the recurrent delta product of a GPU takes 1024 at most");
}

/// A lane's numbers, word by word, from words that are `stride` apart.
template <class Layout, class T>
__device__ __forceinline__ void load_words(T (&to)[Layout::elements], const Word<T>* from, unsigned stride) {
#pragma unroll
  for (int i = 0; i < Layout::words; ++i) {
    const Word<T> word = from[i * stride];
#pragma unroll
    for (int j = 0; j < Layout::width; ++j) to[i * Layout::width + j] = word.of[j];
  }
}
template <class Layout, class T>
__device__ __forceinline__ void store_words(const T (&from)[Layout::elements], Word<T>* to, unsigned stride) {
#pragma unroll
  for (int i = 0; i < Layout::words; ++i) {
    Word<T> word;
#pragma unroll
    for (int j = 0; j < Layout::width; ++j) word.of[j] = from[i * Layout::width + j];
    to[i * stride] = word;
  }
}

/// A lane's part of a row in shared memory, 16-byte aligned.
template <class Layout, class T>
__device__ __forceinline__ void load_row(T (&to)[Layout::elements], const T* row, int part) {
  load_words<Layout>(to, reinterpret_cast<const Word<T>*>(row) + part, Layout::parts);
}
template <class Layout, class T>
__device__ __forceinline__ void store_row(const T (&from)[Layout::elements], T* row, int part) {
  store_words<Layout>(from, reinterpret_cast<Word<T>*>(row) + part, Layout::parts);
}

/// This lane's part of a sum over K. Four sums, so that additions do not wait for one another.
template <int Count, class T>
__device__ __forceinline__ T part_of_dot(const T (&x)[Count], const T (&y)[Count]) {
  constexpr int sums = 4;
  T sum[sums] = {};
#pragma unroll
  for (int i = 0; i < Count; ++i) sum[i % sums] += x[i] * y[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class T>
struct Inputs : DeltaSizes, DeltaPointers<T> {
  TokenTable sequences;
  bool decays_of_rows;

  explicit Inputs(const DeltaWork<T>& work)
      : DeltaSizes(work.sizes),
        DeltaPointers<T>(work),
        sequences(table_of(work.layout, work.saved.device())),
        decays_of_rows(work.input.log_decays.shape().rank() == 3) {}
};

/// Some tokens with all their factors, which are steps here, or one token with some of them.
struct Stage {
  Index token;
  Index first_step;
  int tokens;
  int steps;  // of each token

  __device__ __forceinline__ bool begins_tokens() const { return first_step == 0; }
  __device__ __forceinline__ bool ends_tokens(Index factors) const { return first_step + steps == factors; }
};

/// The largest stage, and where its parts begin in shared memory, in numbers.
struct StagePlan {
  int tokens;
  int steps;  // of each token
  int columns;
  int keys, removals, queries, row_decays, values, d_outputs, betas, norm_factors, decays;
  int size;
};

/// Bytes that stages of several steps have at most, so that more than a few blocks run at a time.
inline constexpr int most_bytes_of_steps = 24 << 10;
/// Bytes that no stage exceeds, with so many columns at most. One step may need more than several may have.
template <class T, class Layout>
constexpr int most_bytes_of_stage(int columns) {
  constexpr int rows = 4;     // keys, removals, queries, row_decays
  constexpr int numbers = 3;  // betas, norm_factors, decays
  const int step = rows * Layout::row_stride + 2 * (columns + Layout::width) + numbers * Layout::width;
  return std::max(most_bytes_of_steps, step * static_cast<int>(sizeof(T)));
}

template <class Layout, class T>
StagePlan plan_stages(const Inputs<T>& a, Index longest, int columns, bool with_gradients) {
  const auto with_steps = [&](int most) {
    StagePlan plan{};
    plan.steps = static_cast<int>(std::min<Index>(a.factors, most));
    plan.tokens = static_cast<int>(std::clamp<Index>(most / a.factors, 1, std::max<Index>(longest, 1)));
    plan.columns = columns;
    const int all_steps = plan.tokens * plan.steps;
    const auto take = [&](int& place, int rows, int row) {
      place = plan.size;
      plan.size += (rows * row + Layout::width - 1) / Layout::width * Layout::width;
    };
    take(plan.keys, all_steps, Layout::row_stride);
    take(plan.removals, a.removals != nullptr ? all_steps : 0, Layout::row_stride);
    take(plan.queries, plan.tokens, Layout::row_stride);
    take(plan.row_decays, a.log_decays != nullptr && a.decays_of_rows ? plan.tokens : 0, Layout::row_stride);
    take(plan.values, all_steps, columns);
    take(plan.d_outputs, with_gradients ? plan.tokens : 0, columns);
    take(plan.betas, all_steps, 1);
    take(plan.norm_factors, all_steps, 1);
    take(plan.decays, plan.tokens, 1);
    return plan;
  };
  // A stage is computed while the next is loaded. A factor takes 100 cycles or more by
  // the latencies of its instructions, and 16 of them hide that of global memory.
  constexpr int most_steps = 16;
  int steps = most_steps;
  while (steps > 1 && with_steps(steps).size * static_cast<int>(sizeof(T)) > most_bytes_of_steps) --steps;
  return with_steps(steps);
}

/// What a block works at: some columns of one head of one sequence.
template <class T>
struct Head {
  const Inputs<T>& a;
  const StagePlan& plan;
  /// [R, H, V], or null.
  const T* d_outputs;
  TokenSequence sequence;
  Index b;
  Index head;
  /// Two stages.
  T* memory;

  __device__ Head(const Inputs<T>& inputs, const StagePlan& stages, const T* output_gradients, Index pair,
                  T* shared)
      : a(inputs),
        plan(stages),
        d_outputs(output_gradients),
        sequence(sequence_of(inputs.sequences, pair / inputs.heads)),
        b(pair / inputs.heads),
        head(pair % inputs.heads),
        memory(shared) {
    for (int i = static_cast<int>(threadIdx.x); i < 2 * plan.size; i += static_cast<int>(blockDim.x))
      memory[i] = 0;
  }

  /// The number of a token's vector in a tensor [R, H, ..], and of a factor's in [R, n, H, ..].
  __device__ __forceinline__ Index at_token(Index token) const {
    return sequence.row(token) * a.heads + head;
  }
  __device__ __forceinline__ Index at_step(Index token, Index step) const {
    return (sequence.row(token) * a.factors + step) * a.heads + head;
  }
  /// The number of this head's state in a tensor [.., H, K, V].
  __device__ __forceinline__ Index state(Index i) const { return i * a.heads + head; }
};

template <class T>
__device__ __forceinline__ void begin_copy(T* shared, const T* global, Index count) {
  for (Index i = threadIdx.x % warp_size; i < count; i += warp_size)
    ptx::cp_async<sizeof(T)>(shared + i, global + i);
}

/// Starts copying a stage to `to`. A warp copies one row after the other.
template <class Layout, class T>
__device__ __forceinline__ void begin_stage(const Head<T>& head, const Stage& stage, Index first_column,
                                            T* to) {
  const Inputs<T>& a = head.a;
  const StagePlan& plan = head.plan;
  const int warps = static_cast<int>(blockDim.x / warp_size);
  const int first = static_cast<int>(threadIdx.x / warp_size);
  const bool first_lane = threadIdx.x % warp_size == 0;
  const Index columns = min(a.value - first_column, static_cast<Index>(plan.columns));
  for (int i = first; i < stage.tokens * stage.steps; i += warps) {
    const Index place = head.at_step(stage.token + i / stage.steps, stage.first_step + i % stage.steps);
    begin_copy(to + plan.keys + i * Layout::row_stride, a.keys + place * a.key, a.key);
    if (a.removals != nullptr)
      begin_copy(to + plan.removals + i * Layout::row_stride, a.removals + place * a.key, a.key);
    begin_copy(to + plan.values + i * plan.columns, a.values + place * a.value + first_column, columns);
    if (first_lane) ptx::cp_async<sizeof(T)>(to + plan.betas + i, a.betas + place);
  }
  for (int i = first; i < stage.tokens; i += warps) {
    const Index place = head.at_token(stage.token + i);
    begin_copy(to + plan.queries + i * Layout::row_stride, a.queries + place * a.key, a.key);
    if (head.d_outputs != nullptr)
      begin_copy(to + plan.d_outputs + i * plan.columns, head.d_outputs + place * a.value + first_column,
                 columns);
    if (a.log_decays == nullptr) continue;
    if (a.decays_of_rows) {
      begin_copy(to + plan.row_decays + i * Layout::row_stride, a.log_decays + place * a.key, a.key);
    } else if (first_lane) {
      ptx::cp_async<sizeof(T)>(to + plan.decays + i, a.log_decays + place);
    }
  }
}

/// Makes a key a unit key, of which each of `parts` neighbouring lanes has a part, and returns what it was
/// multiplied by. A key of zeros stays, and gives 0. All lanes of a warp call it.
template <class Layout, class T>
__device__ __forceinline__ T make_unit(T (&key)[Layout::elements]) {
  T largest = 0;
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) largest = max(largest, fabs(key[e]));
#pragma unroll
  for (int offset = Layout::parts / 2; offset > 0; offset /= 2)
    largest = max(largest, __shfl_xor_sync(whole_warp, largest, offset));
  // A power of two brings the largest number near 1 first, so that no square overflows or underflows.
  constexpr int most = sizeof(T) == sizeof(float) ? 126 : 1022;
  const T power = largest > 0 ? scalbn(T{1}, -max(-most, min(most, ilogb(largest)))) : T{0};
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) key[e] *= power;
  const T squares = sum_over_lanes(part_of_dot(key, key), Layout::parts);
  const T factor = power == 0 ? T{0} : T{1} / sqrt(squares);
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) key[e] *= factor;
  return power * factor;
}

/// Makes what was copied what factors read.
template <class Layout, class T>
__device__ __forceinline__ void prepare_stage(const Head<T>& head, const Stage& stage, T* memory) {
  const Inputs<T>& a = head.a;
  const StagePlan& plan = head.plan;
  if (a.unit_keys || a.removals != nullptr) {
    const int part = static_cast<int>(threadIdx.x) % Layout::parts;
    const int rows = stage.tokens * stage.steps;
    const int rows_of_block = static_cast<int>(blockDim.x) / Layout::parts;
    for (int first = 0; first < rows; first += rows_of_block) {
      const int i = first + static_cast<int>(threadIdx.x) / Layout::parts;
      const bool exists = i < rows;
      T* const key_row = memory + plan.keys + i * Layout::row_stride;
      T key[Layout::elements] = {};
      if (exists) load_row<Layout>(key, key_row, part);
      if (a.unit_keys) {
        const T factor = make_unit<Layout>(key);
        if (exists) store_row<Layout>(key, key_row, part);
        if (exists && part == 0) memory[plan.norm_factors + i] = factor;
      }
      if (a.removals == nullptr || !exists) continue;
      T* const removal_row = memory + plan.removals + i * Layout::row_stride;
      T removal[Layout::elements];
      load_row<Layout>(removal, removal_row, part);
#pragma unroll
      for (int e = 0; e < Layout::elements; ++e) removal[e] *= key[e];
      store_row<Layout>(removal, removal_row, part);
    }
  }
  if (a.log_decays != nullptr && stage.begins_tokens()) {
    const int size = a.decays_of_rows ? static_cast<int>(a.key) : 1;
    const int stride = a.decays_of_rows ? Layout::row_stride : 1;
    T* const decays = memory + (a.decays_of_rows ? plan.row_decays : plan.decays);
    for (int i = static_cast<int>(threadIdx.x); i < stage.tokens * size; i += static_cast<int>(blockDim.x)) {
      T& decay = decays[i / size * stride + i % size];
      decay = exp(decay);
    }
  }
}

enum class Direction { forward, backward };

/// Calls body(stage, its shared memory) for the stages of tokens begin .. end - 1. All threads of a block
/// call it.
template <Direction direction, class Layout, class T, class Body>
__device__ __forceinline__ void for_each_stage(const Head<T>& head, Index begin, Index end,
                                               Index first_column, const Body& body) {
  const StagePlan& plan = head.plan;
  const Index stages_of_token = plan.steps == head.a.factors ? 1 : (head.a.factors - 1) / plan.steps + 1;
  const Index count = ((end - begin + plan.tokens - 1) / plan.tokens) * stages_of_token;
  const auto stage_at = [&](Index i) {
    if constexpr (direction == Direction::backward) i = count - 1 - i;
    const Index group = stages_of_token == 1 ? i : i / stages_of_token;
    const Index first_step = (i - group * stages_of_token) * plan.steps;
    const Index token = begin + group * plan.tokens;
    return Stage{.token = token,
                 .first_step = first_step,
                 .tokens = static_cast<int>(min(end - token, static_cast<Index>(plan.tokens))),
                 .steps = static_cast<int>(min(head.a.factors - first_step, static_cast<Index>(plan.steps)))};
  };
  if (count == 0) return;
  const bool prepares = head.a.unit_keys || head.a.removals != nullptr || head.a.log_decays != nullptr;
  __syncthreads();  // shared memory is free
  Stage stage = stage_at(0);
  begin_stage<Layout>(head, stage, first_column, head.memory);
  ptx::cp_async_commit();
  for (Index i = 0; i < count; ++i) {
    T* const memory = head.memory + i % 2 * plan.size;
    Stage next = stage;
    if (i + 1 < count) {
      next = stage_at(i + 1);
      begin_stage<Layout>(head, next, first_column, head.memory + (i + 1) % 2 * plan.size);
    }
    ptx::cp_async_commit();
    ptx::cp_async_wait<1>();
    __syncthreads();  // all threads' copies have arrived
    if (prepares) {
      prepare_stage<Layout>(head, stage, memory);
      __syncthreads();
    }
    body(stage, memory);
    __syncthreads();  // the stage has been read
    stage = next;
  }
}

/// Sums over a column's lanes, the same in each of them.
template <class Layout, int Count, class T>
__device__ __forceinline__ void sum_over_parts(T (&x)[Count]) {
#pragma unroll
  for (int offset = static_cast<int>(warp_size) / 2; offset >= Layout::columns_of_warp; offset /= 2) {
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] += __shfl_xor_sync(whole_warp, x[i], offset);
  }
}

/// Column `column` of a state [K, V]; zeros where there is no state or no such column.
template <class Layout, class T>
__device__ __forceinline__ void load_column(T (&to)[Layout::elements], const T* states, const Head<T>& head,
                                            Index state, Index column, int part) {
  const Inputs<T>& a = head.a;
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) {
    const Index k = Layout::row(part, e);
    to[e] = states != nullptr && column < a.value && k < a.key
                ? states[(state * a.key + k) * a.value + column]
                : T{0};
  }
}

template <class Layout, class T>
__device__ __forceinline__ void store_column(const T (&from)[Layout::elements], T* states,
                                             const Head<T>& head, Index state, Index column, int part) {
  const Inputs<T>& a = head.a;
  if (states == nullptr || column >= a.value) return;
#pragma unroll
  for (int e = 0; e < Layout::elements; ++e) {
    const Index k = Layout::row(part, e);
    if (k < a.key) states[(state * a.key + k) * a.value + column] = from[e];
  }
}

/// Multiplies columns by the decay of a stage's token.
template <class Layout, int Columns, class T>
__device__ __forceinline__ void decay(const Head<T>& head, const T* memory, int token, int part,
                                      T (&columns)[Columns][Layout::elements]) {
  if (head.a.log_decays == nullptr) return;
  T factors[Layout::elements];
  if (head.a.decays_of_rows) {
    load_row<Layout>(factors, memory + head.plan.row_decays + token * Layout::row_stride, part);
  } else {
    const T factor = memory[head.plan.decays + token];
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e) factors[e] = factor;
  }
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
#pragma unroll
    for (int e = 0; e < Layout::elements; ++e) columns[c][e] *= factors[e];
  }
}

/// The rows k * r of a stage, with which errors are made.
template <class T>
__device__ __forceinline__ const T* removal_rows(const Head<T>& head, const T* memory) {
  return memory + (head.a.removals != nullptr ? head.plan.removals : head.plan.keys);
}

/// Tokens from one kept state to the next. The backward holds the states of such a segment and reads those
/// between segments: with the square root of T / (n + 1) tokens, both are about as many, and their sum is the
/// smallest.
inline Index segment_tokens(Index longest, Index factors) {
  return std::max<Index>(
      1, static_cast<Index>(std::sqrt(static_cast<double>(longest) / static_cast<double>(factors + 1))));
}
/// No more than there are for any lengths of the sequences: sequence b has those from
/// first_segment(its tokens before, b) on.
inline Index segment_count(const TokenLayout& layout, Index tokens) {
  return layout.tokens() / tokens + layout.size();
}
/// Of the states between segments.
template <class T>
Shape borders_shape(const DeltaWork<T>& work) {
  const auto [factors, heads, key, value] = work.sizes;
  return {segment_count(work.layout, segment_tokens(work.layout.longest(), factors)), heads, key, value};
}
__device__ __forceinline__ Index first_segment(const TokenSequence& sequence, Index b, Index tokens) {
  return sequence.before / tokens + b;
}

}  // namespace orthornn::cuda::recurrent
