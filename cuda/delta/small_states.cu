// The recurrent delta product where keys and values have at most 16 numbers: the states of networks that
// solve word problems. `size` lanes of a warp, 8 or 16, have a state, so a warp has four or two. They
// exchange vectors by shared memory of their warp, and nothing waits for other warps.
//
// Forward: a lane has a column of the state, one value. A step, one factor of a token, is a dot product
// and an update in its registers. It keeps the errors e = v - S^T k, and the state before every fourth step.
//
// Backward: a lane has a column of dS, and a row of S and of dS. It takes four steps at a time, the last
// ones first. From the kept state and the errors it makes the states between them, which have the bits of the
// forward's. Then, from the last step to the first:
//
//   after the last of a token:  dS += c q dO^T;  dq = c S dO
//   u = dS^T k                          in columns; lanes exchange u
//   dv = beta u;  dbeta = u . e;  dk = beta (dS e - S u) with S before the step;  dS -= k dv^T
//
// Sums over values need no exchange, because of the rows. Both load the vectors of the next four steps
// while they compute with some.
//
// Shared memory: for each warp, vectors of four steps twice, a number a lane each.

#include <algorithm>
#include <type_traits>

#include "cuda/core/pack.cuh"
#include "cuda/delta/recurrent_steps.cuh"
#include "cuda/delta/small_states.hpp"

namespace orthornn::cuda {
namespace {

using recurrent::Inputs;
using recurrent::part_of_dot;

constexpr unsigned threads = 64;
/// Steps that are loaded together, and from one kept state to the next.
constexpr int stage_steps = 4;

/// One state of a warp, in `size` lanes. Places in tensors fit in an int (src/delta/delta_plan.cpp).
template <class T, int size>
struct SmallState : BasicDeltaSizes<int> {
  const Inputs<T>& a;
  int lane;  // among those of the state: this lane's column and row
  /// Number of the state in [B, H]. Lanes past the last state have its number, no steps, and no memory.
  int number;
  TokenSequence sequence;
  /// Steps of this state, and of the longest in the warp: with these all lanes stay together.
  int steps, longest;

  __device__ SmallState(const Inputs<T>& inputs, int states)
      : BasicDeltaSizes<int>(inputs.template as<int>()), a(inputs), lane(threadIdx.x % size) {
    const int place = static_cast<int>(grid_thread() / size);
    number = min(place, states - 1);
    sequence = sequence_of(a.sequences, number / heads);
    steps = place < states ? static_cast<int>(sequence.count) * factors : 0;
    longest = warp_max(steps);
  }

  __device__ bool exists() const { return grid_thread() / size == number; }
  __device__ bool has_row() const { return lane < key; }
  __device__ bool has_column() const { return lane < value; }
  /// This lane's column of state `i` in a tensor [.., K, V].
  __device__ void load_column(T (&to)[size], const T* states, Index i) const {
#pragma unroll
    for (int k = 0; k < size; ++k)
      to[k] = states != nullptr && exists() && k < key && has_column() ? states[(i * key + k) * value + lane]
                                                                       : T{0};
  }
  __device__ void load_row(T (&to)[size], const T* states, Index i) const {
#pragma unroll
    for (int v = 0; v < size; ++v)
      to[v] = states != nullptr && exists() && v < value && has_row() ? states[(i * key + lane) * value + v]
                                                                      : T{0};
  }
  __device__ void store_column(const T (&from)[size], T* states, Index i) const {
    if (states == nullptr || !exists() || !has_column()) return;
#pragma unroll
    for (int k = 0; k < size; ++k)
      if (k < key) states[(i * key + k) * value + lane] = from[k];
  }
  /// The number of the state before a stage among those that are kept: floor(steps of the sequences before
  /// / 4) + b + the stage. Sequence b has at most one stage more than that leaves before b + 1.
  __device__ Index kept(int begin) const {
    return (sequence.before * factors / stage_steps + number / heads + begin / stage_steps) * heads +
           number % heads;
  }
};

/// A step of a state, and where its head lies in tensors [R, n, H] and [R, H]. It moves without a
/// multiplication.
struct StepCursor {
  int token, step, place, token_place;
  int factors, heads, jump, token_stride;

  template <class T, int size>
  __device__ StepCursor(const SmallState<T, size>& state, int first_step)
      : token(first_step / state.factors),
        step(first_step % state.factors),
        factors(state.factors),
        heads(state.heads),
        jump(static_cast<int>(state.sequence.stride - 1) * factors * heads),
        token_stride(static_cast<int>(state.sequence.stride) * heads) {
    const int row = static_cast<int>(state.sequence.first) + token * static_cast<int>(state.sequence.stride);
    token_place = row * heads + state.number % heads;
    place = (row * factors + step) * heads + state.number % heads;
  }
  __device__ bool ends_token() const { return step == factors - 1; }
  __device__ void advance() {
    ++step;
    place += heads;
    if (step < factors) return;
    step = 0;
    ++token;
    place += jump;
    token_place += token_stride;
  }
  __device__ void retreat() {
    --step;
    place -= heads;
    if (step >= 0) return;
    step = factors - 1;
    --token;
    place -= jump;
    token_place -= token_stride;
  }
};

/// Vectors of the steps of a stage in shared memory, of all states of a warp.
template <class T, int size>
struct WarpVectors {
  alignas(16) T numbers[stage_steps][warp_size];

  __device__ void put(int i, T x) { numbers[i][threadIdx.x % warp_size] = x; }
  /// The whole vector of this lane's state, after a barrier of the warp.
  __device__ void take(T (&to)[size], int i) const {
    constexpr int width = 16 / sizeof(T);
    const T* const vector = numbers[i] + threadIdx.x % warp_size / size * size;
#pragma unroll
    for (int w = 0; w < size / width; ++w) {
      const auto word = load_pack<width>(vector + w * width);
#pragma unroll
      for (int j = 0; j < width; ++j) to[w * width + j] = word.of[j];
    }
  }
};

/// What a forward keeps: errors [R, n, H, V] and states [kept, H, K, V]; null where nothing is kept.
template <class T>
struct KeptSteps {
  T *errors, *states;
};

template <class T, int size>
__global__ void __launch_bounds__(threads)
    small_forward_kernel(Inputs<T> a, T* outputs, T* final_states, KeptSteps<T> kept, int states) {
  using Vectors = WarpVectors<T, size>;
  __shared__ Vectors all_keys[2][threads / warp_size], all_queries[2][threads / warp_size];
  const unsigned warp = threadIdx.x / warp_size;
  const SmallState<T, size> own(a, states);
  T state[size];
  own.load_column(state, a.initial_states, own.number);

  T keys[stage_steps], queries[stage_steps], values[stage_steps], betas[stage_steps];
  // Goes on to the step after those that it loads.
  const auto load = [&](int begin, StepCursor& at) {
#pragma unroll
    for (int i = 0; i < stage_steps; ++i, at.advance()) {
      const bool here = begin + i < own.steps, reads = here && at.ends_token();
      keys[i] = here && own.has_row() ? a.keys[at.place * own.key + own.lane] : T{0};
      values[i] = here && own.has_column() ? a.values[at.place * own.value + own.lane] : T{0};
      betas[i] = here ? a.betas[at.place] : T{0};
      queries[i] = reads && own.has_row() ? a.queries[at.token_place * own.key + own.lane] : T{0};
    }
  };
  StepCursor at(own, 0), loaded = at;
  load(0, loaded);
  for (int begin = 0; begin < own.longest; begin += stage_steps) {
    Vectors &shared_keys = all_keys[begin / stage_steps % 2][warp],
            &shared_queries = all_queries[begin / stage_steps % 2][warp];
    T value[stage_steps], beta[stage_steps];
#pragma unroll
    for (int i = 0; i < stage_steps; ++i) {
      shared_keys.put(i, keys[i]);
      shared_queries.put(i, queries[i]);
      value[i] = values[i];
      beta[i] = betas[i];
    }
    if (kept.states != nullptr && begin < own.steps) own.store_column(state, kept.states, own.kept(begin));
    __syncwarp();
    load(begin + stage_steps, loaded);
#pragma unroll
    for (int i = 0; i < stage_steps; ++i, at.advance()) {
      if (begin + i >= own.steps) break;
      T key[size];
      shared_keys.take(key, i);
      const T error = value[i] - part_of_dot(key, state), change = beta[i] * error;
#pragma unroll
      for (int k = 0; k < size; ++k) state[k] += key[k] * change;
      if (kept.errors != nullptr && own.has_column()) kept.errors[at.place * own.value + own.lane] = error;
      if (!at.ends_token()) continue;
      T query[size];
      shared_queries.take(query, i);
      if (own.has_column())
        outputs[at.token_place * own.value + own.lane] = a.scale * part_of_dot(query, state);
    }
  }
  own.store_column(state, final_states, own.number);
}

/// This lane's numbers of the steps of a stage, as the backward loads them: of its row keys and queries, of
/// its column errors and c dO.
template <class T>
struct OwnNumbers {
  T keys[stage_steps], errors[stage_steps], betas[stage_steps], queries[stage_steps], d_outputs[stage_steps];

  template <int size>
  __device__ __forceinline__ void load(const SmallState<T, size>& own, const T* kept_errors,
                                       const T* all_d_outputs, int begin, StepCursor at) {
    const Inputs<T>& a = own.a;
#pragma unroll
    for (int i = 0; i < stage_steps; ++i, at.advance()) {
      const bool here = begin + i < own.steps, read = here && at.ends_token();
      keys[i] = here && own.has_row() ? a.keys[at.place * own.key + own.lane] : T{0};
      errors[i] = here && own.has_column() ? kept_errors[at.place * own.value + own.lane] : T{0};
      betas[i] = here ? a.betas[at.place] : T{0};
      queries[i] = read && own.has_row() ? a.queries[at.token_place * own.key + own.lane] : T{0};
      d_outputs[i] =
          read && own.has_column() ? a.scale * all_d_outputs[at.token_place * own.value + own.lane] : T{0};
    }
  }
};

/// The vectors of a stage that lanes of the backward exchange.
template <class T, int size>
struct StageVectors {
  WarpVectors<T, size> keys, errors, queries, d_outputs;

  __device__ __forceinline__ void put(const OwnNumbers<T>& own) {
#pragma unroll
    for (int i = 0; i < stage_steps; ++i) {
      keys.put(i, own.keys[i]);
      errors.put(i, own.errors[i]);
      queries.put(i, own.queries[i]);
      d_outputs.put(i, own.d_outputs[i]);
    }
  }
};

/// The backward through a stage, with this lane's column and row of dS.
template <class T, int size>
struct StageBackward {
  const SmallState<T, size>& own;
  const DeltaGradientPointers<T>& p;
  const StageVectors<T, size>& vectors;
  const OwnNumbers<T>& numbers;
  T (&d_column)[size], (&d_row)[size];

  /// This lane's row of S before each step and after the last, from that before the first, rows[0].
  __device__ __forceinline__ void remake_rows(T (&rows)[stage_steps + 1][size]) const {
#pragma unroll
    for (int i = 0; i < stage_steps; ++i) {
      T error[size];
      vectors.errors.take(error, i);
#pragma unroll
      for (int v = 0; v < size; ++v) {
        const T change = numbers.betas[i] * error[v];
        rows[i + 1][v] = rows[i][v] + numbers.keys[i] * change;
      }
    }
  }
  /// What a token reads from the state after its last factor, step i, whose row is `row`.
  __device__ __forceinline__ void output(int i, const StepCursor& at, const T (&row)[size]) const {
    T query[size], d_output[size];
    vectors.queries.take(query, i);
    vectors.d_outputs.take(d_output, i);
    const T d_query = part_of_dot(row, d_output);
#pragma unroll
    for (int j = 0; j < size; ++j) {
      d_column[j] += query[j] * numbers.d_outputs[i];
      d_row[j] += numbers.queries[i] * d_output[j];
    }
    if (own.has_row()) p.d_queries[at.token_place * own.key + own.lane] = d_query;
  }
  /// Step i, where the state before it has the row `row`. Lanes exchange `products`, so those whose state has
  /// no such step, not `here`, call it too.
  __device__ __forceinline__ void factor(int i, const StepCursor& at, const T (&row)[size], bool here,
                                         WarpVectors<T, size>& products) const {
    T key[size];
    vectors.keys.take(key, i);
    const T beta = numbers.betas[i];
    const T product = part_of_dot(key, d_column), d_value = beta * product;
    products.put(i, product);
    __syncwarp();
    const T d_beta = sum_over_lanes(product * numbers.errors[i], size);
    if (!here) return;
#pragma unroll
    for (int k = 0; k < size; ++k) d_column[k] -= key[k] * d_value;
    T error[size], all_products[size];
    vectors.errors.take(error, i);
    products.take(all_products, i);
    const T scaled_key = beta * numbers.keys[i];
    const T d_key = beta * (part_of_dot(d_row, error) - part_of_dot(row, all_products));
#pragma unroll
    for (int v = 0; v < size; ++v) d_row[v] -= scaled_key * all_products[v];
    if (own.has_row()) p.d_keys[at.place * own.key + own.lane] = d_key;
    if (own.has_column()) p.d_values[at.place * own.value + own.lane] = d_value;
    if (own.lane == 0) p.d_betas[at.place] = d_beta;
  }
};

template <class T, int size>
__global__ void __launch_bounds__(threads)
    small_backward_kernel(Inputs<T> a, KeptSteps<const T> kept, DeltaGradientPointers<T> p, int states) {
  __shared__ StageVectors<T, size> all_vectors[2][threads / warp_size];
  __shared__ WarpVectors<T, size> all_products[threads / warp_size];
  const unsigned warp = threadIdx.x / warp_size;
  const SmallState<T, size> own(a, states);
  T d_column[size], d_row[size];
  own.load_column(d_column, p.d_final_states, own.number);
  own.load_row(d_row, p.d_final_states, own.number);

  // Of the stage that comes next.
  OwnNumbers<T> next;
  T kept_row[size] = {};
  const auto load = [&](int begin, const StepCursor& at) {
    if (begin < 0) return;
    next.load(own, kept.errors, p.d_outputs, begin, at);
    if (begin < own.steps) own.load_row(kept_row, kept.states, own.kept(begin));
  };
  const int last = (own.longest - 1) / stage_steps * stage_steps;
  StepCursor first(own, last);  // of the stage
  load(own.longest > 0 ? last : -1, first);
  for (int begin = last, stage = 0; begin >= 0 && own.longest > 0; begin -= stage_steps, ++stage) {
    StageVectors<T, size>& vectors = all_vectors[stage % 2][warp];
    const OwnNumbers<T> numbers = next;
    vectors.put(numbers);
    StepCursor places[stage_steps] = {first, first, first, first};
#pragma unroll
    for (int i = 1; i < stage_steps; ++i) places[i] = places[i - 1], places[i].advance();
    T rows[stage_steps + 1][size];
#pragma unroll
    for (int v = 0; v < size; ++v) rows[0][v] = kept_row[v];
#pragma unroll
    for (int i = 0; i < stage_steps; ++i) first.retreat();
    __syncwarp();
    load(begin - stage_steps, first);
    const StageBackward<T, size> backward{own, p, vectors, numbers, d_column, d_row};
    backward.remake_rows(rows);
#pragma unroll
    for (int i = stage_steps - 1; i >= 0; --i) {
      if (begin + i >= own.longest) continue;
      const bool here = begin + i < own.steps;
      if (here && places[i].ends_token()) backward.output(i, places[i], rows[i + 1]);
      backward.factor(i, places[i], rows[i], here, all_products[warp]);
    }
  }
  own.store_column(d_column, p.d_initial_states, own.number);
}

LaunchShape shape_for(int states, int size) {
  return {.grid = blocks_for(static_cast<Index>(states) * size, threads), .block = threads};
}

/// Calls body(size) for the lanes of a state, as a constant.
template <class T, class Body>
void with_size(const Inputs<T>& a, const Body& body) {
  if (std::max(a.key, a.value) <= 8) return body(std::integral_constant<int, 8>());
  body(std::integral_constant<int, static_cast<int>(largest_small_state)>());
}

Shape kept_states(const DeltaSizes& sizes, const TokenLayout& layout) {
  return {layout.tokens() * sizes.factors / stage_steps + layout.size(), sizes.heads, sizes.key, sizes.value};
}

/// Pushes what a backward reads.
template <class T>
KeptSteps<T> push_steps(const DeltaWork<T>& work) {
  T* const errors = work.saved.template push<T>(work.input.values.shape()).data();
  return {.errors = errors,
          .states = work.saved.template push<T>(kept_states(work.sizes, work.layout)).data()};
}

}  // namespace

template <class T>
void small_states(const DeltaWork<T>& work, const DeltaResults<T>& results) {
  const Inputs<T> a(work);
  Saved& saved = work.saved;
  KeptSteps<T> kept{};
  if (results.keep) kept = push_steps(work);
  const int states = static_cast<int>(work.layout.size() * a.heads);
  if (states == 0) return;
  with_size(a, [&](auto size) {
    launch(context(saved.device()), small_forward_kernel<T, size>, shape_for(states, size), a,
           results.outputs.data(), data_or_null(results.final_states), kept, states);
  });
}

template <class T>
void small_states_backward(const DeltaWork<T>& work, const DeltaProductGradients<T>& gradients) {
  const Inputs<T> a(work);
  Saved& saved = work.saved;
  const TensorView<const T> states_before = saved.top<T>(0), errors = saved.top<T>(1);
  check_shape("states that the forward kept", states_before.shape(), kept_states(work.sizes, work.layout));
  check_shape("errors that the forward kept", errors.shape(), work.input.values.shape());
  const KeptSteps<const T> kept{.errors = errors.data(), .states = states_before.data()};
  const int states = static_cast<int>(work.layout.size() * a.heads);
  if (states > 0) {
    with_size(a, [&](auto size) {
      launch(context(saved.device()), small_backward_kernel<T, size>, shape_for(states, size), a, kept,
             DeltaGradientPointers<T>(gradients), states);
    });
  }
  saved.pop(2);
}

template <class T>
SavedMemory memory_of_small_states(const DeltaWork<T>& work) {
  const std::size_t kept = Saved::bytes_of(work.input.values.shape(), sizeof(T)) +
                           Saved::bytes_of(kept_states(work.sizes, work.layout), sizeof(T));
  return {.kept = kept, .keeping = 0, .forward = 0, .backward = 0};
}

template <class T>
void push_kept_small_states(const DeltaWork<T>& work) {
  push_steps(work);
}

#define ORTHORNN_INSTANTIATE(T)                                                                 \
  template void small_states<T>(const DeltaWork<T>&, const DeltaResults<T>&);                   \
  template void small_states_backward<T>(const DeltaWork<T>&, const DeltaProductGradients<T>&); \
  template SavedMemory memory_of_small_states<T>(const DeltaWork<T>&);                          \
  template void push_kept_small_states<T>(const DeltaWork<T>&);
ORTHORNN_INSTANTIATE(float)
ORTHORNN_INSTANTIATE(double)
#undef ORTHORNN_INSTANTIATE

}  // namespace orthornn::cuda
