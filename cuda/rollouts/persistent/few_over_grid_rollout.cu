// A recurrence of few sequences in fp32 where no cluster can hold its matrix: over blocks of the whole GPU.
//
// A block has sixteen rows of Q, and each of its threads some columns of them, in registers. A step:
//   1. read: a thread reads its columns of a sequence's state from the L2 cache, until all of them have come.
//   2. multiply: a warp multiplies, adds over its lanes, and leaves the sums in shared memory. Then comes the
//      next sequence.
//   3. finish: a thread that owns a unit of a sequence adds the sums of the warps, makes the new state of it,
//      and writes it for the others.

#include "cuda/core/launch.hpp"
#include "cuda/core/reduce_scatter.cuh"
#include "cuda/products/few_over_grid.hpp"
#include "cuda/rollouts/persistent/grid_exchange.cuh"
#include "cuda/rollouts/persistent/persistent_rollout.hpp"
#include "cuda/rollouts/persistent/step_order.cuh"
#include "cuda/rollouts/rollout_element.cuh"

namespace orthornn::cuda {
namespace {

constexpr int rows = few_over_grid_rows, threads = few_over_grid_threads, warps = threads / warp_size;
/// Numbers in a load of a thread, and in those of all threads.
constexpr int load_numbers = 4, block_numbers = threads * load_numbers;

/// A thread's columns of a sequence's state: four neighbours in each of `Loads` loads.
template <int Loads>
struct StateWords {
  uint4 loads[Loads];

  /// Asks for them. `from` is where the thread's first columns lie.
  __device__ __forceinline__ void fetch(const float* from) {
#pragma unroll
    for (int i = 0; i < Loads; ++i) loads[i] = load_words(from + i * block_numbers);
  }
  /// Asks again until all have been written.
  __device__ __forceinline__ void wait(const float* from) {
    Watchdog watchdog;
    while (!__all_sync(whole_warp, have_come())) {
      watchdog.look();
      fetch(from);
    }
  }

 private:
  __device__ __forceinline__ bool have_come() const {
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < Loads; ++i) largest = max(largest, largest_word(loads[i]));
    return largest != unwritten;
  }
};

/// A thread's columns of the block's rows of Q (of Q^T backward).
template <Direction direction, int Loads>
class RowsOfQ {
  static constexpr int columns = Loads * load_numbers;

 public:
  __device__ __forceinline__ RowsOfQ(const float* q, Index n, Index first_row) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        const Index row = first_row + r, column = column_of(i);
        const Index at = direction == Direction::forward ? row * n + column : column * n + row;
        weights_[r][i] = row < n && column < n ? q[at] : 0.0f;
      }
    }
  }
  __device__ __forceinline__ void multiply(const StateWords<Loads>& state, float (&sums)[rows]) const {
#pragma unroll
    for (int r = 0; r < rows; ++r) sums[r] = 0.0f;
#pragma unroll
    for (int load = 0; load < Loads; ++load) {
      const uint4& words = state.loads[load];
      const float x[load_numbers] = {__uint_as_float(words.x), __uint_as_float(words.y),
                                     __uint_as_float(words.z), __uint_as_float(words.w)};
#pragma unroll
      for (int i = 0; i < load_numbers; ++i) {
#pragma unroll
        for (int r = 0; r < rows; ++r) sums[r] = fmaf(weights_[r][load * load_numbers + i], x[i], sums[r]);
      }
    }
  }

 private:
  static __device__ __forceinline__ int column_of(int i) {
    return i / load_numbers * block_numbers + static_cast<int>(threadIdx.x) * load_numbers + i % load_numbers;
  }

  float weights_[rows][columns];
};

/// `states` [buffers][B][Loads * block_numbers] are as clear_few_states leaves them.
template <Direction direction, int Loads>
__global__ void __launch_bounds__(threads, 1)
    few_over_grid(RolloutArguments<float> arguments, const float* q, float* states) {
  using Element = RolloutElement<float, direction>;
  using Reduce = ReduceScatter<rows, warp_size>;
  static_assert(Reduce::left == 1);
  constexpr bool forward = direction == Direction::forward;
  constexpr int stride = Loads * block_numbers;
  // Those of even steps, and those of odd ones. A warp writes to them again after the barrier between, which
  // all threads reach once they have read.
  __shared__ float sums_of_warps[2][few_over_grid_sequences][warps][rows];

  const int batch = static_cast<int>(arguments.batch), thread = static_cast<int>(threadIdx.x),
            lane = thread % warp_size, warp = thread / warp_size;
  const Index first_row = Index{blockIdx.x} * rows;
  const RowsOfQ<direction, Loads> weights(q, arguments.hidden_size, first_row);
  const int row = thread % rows, sequence = thread / rows;
  const bool owns = sequence < batch;
  const Element element(arguments, first_row + row, sequence);
  const auto state = [&](int number, int s) { return states + (number % grid_buffers * batch + s) * stride; };
  const auto publish = [&](int number, float x) {
    if (!owns) return;
    store_word(state(number, sequence) + first_row + row, writable(__float_as_uint(x)));
    // Everyone has read it (grid_exchange.cuh).
    store_word(state(number + grid_buffers - 2, sequence) + first_row + row, unwritten);
  };

  const StepOrder<direction> order(arguments);
  StepPlace place = place_of_step(arguments, order.time(0));
  const auto input_of = [&](int step, StepPlace at) {
    if (step >= order.length) return typename Element::Input{};
    return load_input(element, arguments, order.time(step), at);
  };
  const auto finish = [&](int step, int number, float product, const typename Element::Input& input) {
    const float x = element.value(arguments, order.time(step), product, input);
    if (number < order.length) publish(number, x);
    element.keep(arguments, order.time(step), place, product, input, x);
    place += order.stride;
  };
  // Forward, published number t is h_t, and step t makes h_{t+1} of it. Backward, number i is the gradient of
  // the step i before the last.
  constexpr int first_step = forward ? 0 : 1;
  if constexpr (forward) {
    publish(0, element.start(arguments));
  } else {
    finish(0, 0, 0.0f, input_of(0, place));
  }
  typename Element::Input input = input_of(first_step, place);
  for (int number = 0; number < order.length; ++number) {
    const int step = number + first_step;
    const typename Element::Input next = input_of(step + 1, place + order.stride);
    const auto columns = [&](int s) { return state(number, s) + thread * load_numbers; };
    StateWords<Loads> words;
    words.fetch(columns(0));
    for (int s = 0; s < batch; ++s) {
      words.wait(columns(s));
      float sums[rows];
      weights.multiply(words, sums);
      if (s + 1 < batch) words.fetch(columns(s + 1));
      Reduce::run(sums, lane);
      if (lane % Reduce::copies == 0) sums_of_warps[number & 1][s][warp][Reduce::first(lane)] = sums[0];
    }
    if (number % steps_between_fences == 0) fence_between_steps();
    __syncthreads();
    float product = 0;
    if (owns) {
#pragma unroll
      for (int i = 0; i < warps; ++i) product += sums_of_warps[number & 1][sequence][i][row];
    }
    if (step < order.length) {
      finish(step, number + 1, product, input);
    } else if constexpr (!forward) {
      element.end(arguments, product);
    }
    input = next;
  }
}

/// No word of the state is written, but those of units that no block has, which are zeros.
__global__ void clear_few_states(int stride, int units, Index words, unsigned* states) {
  const Index i = grid_thread();
  if (i < words) states[i] = i % stride < units ? unwritten : 0;
}

template <Direction direction, int Loads>
void start(const RolloutArguments<float>& arguments, const float* q) {
  Context& gpu = context(arguments.device);
  constexpr int stride = Loads * block_numbers;
  const unsigned blocks = blocks_for(arguments.hidden_size, rows);
  const Index words = Index{grid_buffers} * arguments.batch * stride;
  auto* const states = gpu.scratch<float>(static_cast<std::size_t>(words));
  launch(gpu, clear_few_states, {.grid = blocks_for(words, threads), .block = threads}, stride,
         static_cast<int>(blocks) * rows, words, reinterpret_cast<unsigned*>(states));
  launch(gpu, few_over_grid<direction, Loads>, {.grid = blocks, .block = threads, .together = true},
         arguments, q, states);
}

template <Direction direction>
void start_padded(const RolloutArguments<float>& arguments, const float* q) {
  static_assert(largest_of_eight_columns == 2 * block_numbers && largest_few_over_grid == 3 * block_numbers);
  if (arguments.hidden_size <= largest_of_eight_columns) return start<direction, 2>(arguments, q);
  start<direction, 3>(arguments, q);
}

}  // namespace

void few_over_grid_rollout(Direction direction, const RolloutArguments<float>& arguments, const float* q) {
  if (direction == Direction::forward) return start_padded<Direction::forward>(arguments, q);
  start_padded<Direction::backward>(arguments, q);
}

}  // namespace orthornn::cuda
