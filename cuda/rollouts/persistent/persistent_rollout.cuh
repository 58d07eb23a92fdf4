#pragma once

#include "cuda/core/reduce_scatter.cuh"
#include "cuda/rollouts/persistent/input_ring.cuh"

namespace orthornn::cuda {

/// How the threads of a block share its rows of Q. A thread keeps 8 rows by Columns columns in registers;
/// `Lanes` neighbouring lanes have all columns of the same 8 rows. So every number of the state that is read
/// from shared memory serves 8 multiplications. Reads are what a step waits for: a load of 16 bytes keeps the
/// multiprocessor four cycles, however many lanes want the same. With 4 rows, twice the reads cost what the
/// shorter sums over lanes save.
template <int LaneCount, int ColumnCount>
struct PersistentTile {
  static constexpr int row_count = 8;
  static constexpr int lanes = LaneCount;
  static constexpr int columns = ColumnCount;
  /// N, padded.
  static constexpr int size = lanes * columns;
  /// Columns come in pieces of four neighbours, one load each, dealt to the lanes in turn.
  static constexpr int piece = 4;
  static constexpr int pieces = columns / piece;
  static_assert(columns % piece == 0);

  static constexpr int threads(int rows) { return rows / row_count * lanes; }
  static __device__ __forceinline__ int column(int i, int lane) {
    return (i / piece * lanes + lane) * piece + i % piece;
  }
};

/// The recurrence in fp32, for Group sequences a block (or cluster) that share each pass over the weights,
/// times `Groups` of such groups, which have nothing to do with one another: while the state of one travels,
/// the next is multiplied. The loop over time is inside; the exchange is all that threads wait for.
///
/// A step: receive h_{t-1} (g_{t+1}), multiply by Q (Q^T), finish h_t (g_t), publish it. Inputs are loaded
/// `Ahead` - 1 steps before they are needed.
template <Direction direction, class Tile, class Exchange, int Group, int Groups, int Ahead>
__global__ void __launch_bounds__(Tile::threads(Exchange::rows), 1)
    persistent_rollout(RolloutArguments<float> arguments, const float* q) {
  using Element = RolloutElement<float, direction>;
  using Reduce = ReduceScatter<Tile::row_count * Group, Tile::lanes>;
  constexpr bool forward = direction == Direction::forward;
  constexpr int threads = Tile::threads(Exchange::rows);
  static_assert(threads / warp_size + 1 >= Exchange::blocks, "a warp for each block that is sent to");

  Exchange exchanges[Groups];
#pragma unroll
  for (int group = 0; group < Groups; ++group) {
    exchanges[group] = Exchange(dynamic_shared_memory() + group * Exchange::shared_bytes);
  }
  Exchange::begin();
  const InputRing<Element, Ahead, Groups, threads> ring(dynamic_shared_memory() +
                                                        Groups * Exchange::shared_bytes);
  const int lane = static_cast<int>(threadIdx.x) % Tile::lanes;
  const int tile_row = static_cast<int>(threadIdx.x) / Tile::lanes * Tile::row_count;
  const Index first_row = Index{Exchange::rank()} * Exchange::rows;
  const Index first_sequence = Index{blockIdx.x / Exchange::blocks} * Group * Groups;
  const Index n = arguments.hidden_size;

  // 1. The weights, which stay.
  float weights[Tile::row_count][Tile::columns];
#pragma unroll
  for (int r = 0; r < Tile::row_count; ++r) {
#pragma unroll
    for (int i = 0; i < Tile::columns; ++i) {
      const Index row = first_row + tile_row + r;
      const Index column = Tile::column(i, lane);
      weights[r][i] = row < n && column < n ? (forward ? q[row * n + column] : q[column * n + row]) : 0.0f;
    }
  }

  // 2. The elements that this thread owns once the sums are dealt: one of each group, all of one row.
  const int share = lane % Reduce::copies;
  const bool owns = share < Reduce::left;
  const int value = Reduce::first(lane) + (owns ? share : 0);
  const int row = tile_row + value % Tile::row_count;
  const int sequence = value / Tile::row_count;
  Element elements[Groups];
#pragma unroll
  for (int group = 0; group < Groups; ++group) {
    elements[group] =
        Element(arguments, owns ? first_row + row : n, first_sequence + group * Group + sequence);
  }
  const auto publish = [&](int step, int group, float x) {
    if (owns) exchanges[group].store(step, row, sequence, x);
    exchanges[group].commit(step);
  };

  /// This thread's columns of a sequence's state.
  struct State {
    float4 pieces[Tile::pieces];
  };
  const auto read = [&](int step, int group, int s) {
    State state;
    const float* const first = exchanges[group].columns(step, Tile::column(0, lane));
#pragma unroll
    for (int piece = 0; piece < Tile::pieces; ++piece) {
      const int column = piece * Tile::piece * Tile::lanes;
      state.pieces[piece] = *reinterpret_cast<const float4*>(first + Exchange::offset(column, s));
    }
    return state;
  };
  /// (Q x)_row, or (Q^T x)_row, for this thread's element of a group, whose first sequence has been read.
  const auto multiply = [&](int step, int group, State state) {
    float sums[Tile::row_count * Group];
#pragma unroll
    for (int s = 0; s < Group; ++s) {
      if (s > 0) state = read(step, group, s);
#pragma unroll
      for (int r = 0; r < Tile::row_count; ++r) sums[s * Tile::row_count + r] = 0.0f;
#pragma unroll
      for (int i = 0; i < Tile::columns; ++i) {
        const float4 piece = state.pieces[i / Tile::piece];
        const float x[Tile::piece] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int r = 0; r < Tile::row_count; ++r) {
          float& sum = sums[s * Tile::row_count + r];
          sum = fmaf(weights[r][i], x[i % Tile::piece], sum);
        }
      }
    }
    Reduce::run(sums, lane);
    float mine = sums[0];
#pragma unroll
    for (int i = 1; i < Reduce::left; ++i) mine = share == i ? sums[i] : mine;
    return mine;
  };

  // 3. Through time. `place` is that of the step whose inputs are taken.
  const int length = static_cast<int>(arguments.length);
  const auto time = [&](int step) { return forward ? step : length - 1 - step; };
  const Index stride = (forward ? 1 : -1) * arguments.batch * n;
  typename Element::Place place(arguments, time(0));
#pragma unroll
  for (int step = 0; step < Ahead - 1; ++step)
    ring.fetch(elements, step, step < length, place.after(step * stride));
  /// Before the inputs of a step are taken.
  const auto advance_inputs = [&](int step) {
    const int ahead = step + Ahead - 1;
    ring.fetch(elements, ahead, ahead < length, place.after((Ahead - 1) * stride));
    ring.wait();
  };
  /// Finishes and publishes, as number `number`, what step `step` makes of a product.
  const auto finish = [&](int step, int number, int group, float product,
                          const typename Element::Input& input) {
    const float x = elements[group].value(arguments, time(step), product, input);
    if (number < length) publish(number, group, x);
    elements[group].keep(arguments, time(step), place, product, input, x);
  };

  if constexpr (forward) {
#pragma unroll
    for (int group = 0; group < Groups; ++group) publish(0, group, elements[group].start(arguments));
  } else {
    advance_inputs(0);
#pragma unroll
    for (int group = 0; group < Groups; ++group) {
      finish(0, 0, group, 0.0f, ring.take(arguments, elements[group], 0, group, time(0)));
    }
    place = place.after(stride);
  }
  for (int number = 0; number < length; ++number, place = place.after(stride)) {
    // Forward, published number t is h_t, and step t makes h_{t+1} of it; backward, step t publishes its own
    // g_t.
    const int step = forward ? number : number + 1;
#pragma unroll
    for (int group = 0; group < Groups; ++group) {
      exchanges[group].receive(number);
      const State state = read(number, group, 0);
      // While that is on its way.
      if (group == 0 && step < length) advance_inputs(step);
      typename Element::Input input{};
      if (step < length) input = ring.take(arguments, elements[group], step, group, time(step));
      const float product = multiply(number, group, state);
      if constexpr (!forward) {
        if (step == length) {
          elements[group].end(arguments, product);
          continue;
        }
      }
      finish(step, number + 1, group, product, input);
    }
  }
  Exchange::end();
}

/// Shared memory of such a block.
template <Direction direction, class Exchange, int Groups, int Ahead, int Threads>
inline constexpr std::size_t persistent_rollout_bytes =
    Groups* Exchange::shared_bytes +
    InputRing<RolloutElement<float, direction>, Ahead, Groups, Threads>::shared_bytes;

}  // namespace orthornn::cuda
