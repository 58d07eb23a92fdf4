#pragma once

#include "cuda/cells/rollout_element.cuh"
#include "cuda/core/reduce_scatter.cuh"

namespace orthornn::cuda {

/// How the threads of a block share its rows of Q. A thread keeps 8 rows by Columns columns in registers;
/// `Lanes` neighbouring lanes have all columns of the same 8 rows. The rows make every number of the state
/// that is read from shared memory serve 8 multiplications; with fewer, the reads would be the limit.
template <int LaneCount, int ColumnCount>
struct PersistentTile {
  static constexpr int row_count = 8;
  static constexpr int lanes = LaneCount;
  static constexpr int columns = ColumnCount;
  /// N, padded.
  static constexpr int size = lanes * columns;
  /// Columns come in pieces of so many neighbours, one load each, dealt to the lanes in turn.
  static constexpr int piece = columns % 4 == 0 ? 4 : 2;

  static constexpr unsigned threads(int rows) { return rows / row_count * lanes; }
  static __device__ __forceinline__ int column(int i, int lane) {
    return (i / piece * lanes + lane) * piece + i % piece;
  }
};

/// The recurrence in fp32, for Group sequences a block (or cluster) that share each pass over the weights,
/// times `Groups` of such groups, which have nothing to do with one another: while the state of one travels,
/// the next is multiplied. The loop over time is inside; the exchange is all that threads wait for.
///
/// A step: receive h_{t-1} (g_{t+1}), multiply by Q (Q^T), finish h_t (g_t), publish it. Inputs are loaded
/// `Ahead` steps before they are needed.
template <Direction direction, class Tile, class Exchange, int Group, int Groups, int Ahead>
__global__ void __launch_bounds__(Tile::threads(Exchange::rows), 1)
    persistent_rollout(RolloutArguments<float> arguments, const float* q) {
  using Element = RolloutElement<float, direction>;
  using Reduce = ReduceScatter<Tile::row_count * Group, Tile::lanes>;
  constexpr bool forward = direction == Direction::forward;

  Exchange exchanges[Groups];
#pragma unroll
  for (int group = 0; group < Groups; ++group) {
    exchanges[group] = Exchange(dynamic_shared_memory() + group * Exchange::shared_bytes);
  }
  Exchange::begin();
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
  const auto publish = [&](Index step, int group, float x) {
    if (owns) exchanges[group].store(step, row, sequence, x);
    exchanges[group].commit(step);
  };

  /// (Q x)_row, or (Q^T x)_row, for this thread's element of a group.
  const auto multiply = [&](Index step, int group) {
    float sums[Tile::row_count * Group];
#pragma unroll
    for (int i = 0; i < Tile::row_count * Group; ++i) sums[i] = 0.0f;
    const float* const state = exchanges[group].columns(step, Tile::column(0, lane));
#pragma unroll
    for (int i = 0; i < Tile::columns; i += Tile::piece) {
#pragma unroll
      for (int s = 0; s < Group; ++s) {
        const float* x = state + Exchange::offset(i * Tile::lanes, s);
        float piece[Tile::piece];
        if constexpr (Tile::piece == 4) {
          const float4 loaded = *reinterpret_cast<const float4*>(x);
          piece[0] = loaded.x, piece[1] = loaded.y, piece[2] = loaded.z, piece[3] = loaded.w;
        } else {
          const float2 loaded = *reinterpret_cast<const float2*>(x);
          piece[0] = loaded.x, piece[1] = loaded.y;
        }
#pragma unroll
        for (int j = 0; j < Tile::piece; ++j) {
#pragma unroll
          for (int r = 0; r < Tile::row_count; ++r) {
            sums[s * Tile::row_count + r] = fmaf(weights[r][i + j], piece[j], sums[s * Tile::row_count + r]);
          }
        }
      }
    }
    Reduce::run(sums, lane);
    float mine = sums[0];
#pragma unroll
    for (int i = 1; i < Reduce::left; ++i) mine = share == i ? sums[i] : mine;
    return mine;
  };

  // 3. Inputs of the next steps, in registers that move up.
  const Index stride = (forward ? 1 : -1) * arguments.batch * n;
  const Index start = forward ? 0 : (arguments.length - 1) * arguments.batch * n;
  const auto time = [&](Index step) { return forward ? step : arguments.length - 1 - step; };
  typename Element::Input inputs[Ahead][Groups];
#pragma unroll
  for (int ahead = 0; ahead < Ahead; ++ahead) {
#pragma unroll
    for (int group = 0; group < Groups; ++group) {
      inputs[ahead][group] = elements[group].load(arguments, time(ahead), start + ahead * stride);
    }
  }
  const auto next_input = [&](Index step, Index place, int group) {
    const typename Element::Input now = inputs[0][group];
#pragma unroll
    for (int ahead = 0; ahead + 1 < Ahead; ++ahead) inputs[ahead][group] = inputs[ahead + 1][group];
    inputs[Ahead - 1][group] = elements[group].load(arguments, time(step + Ahead), place + Ahead * stride);
    return now;
  };

  // 4. Through time.
  Index place = start;
#pragma unroll
  for (int group = 0; group < Groups; ++group) {
    if constexpr (forward) {
      publish(0, group, elements[group].start(arguments));
    } else {
      const auto input = next_input(0, place, group);
      publish(0, group, elements[group].finish(arguments, time(0), place, 0.0f, input));
    }
  }
  for (Index step = 0; step < arguments.length; ++step) {
    const bool is_last = step + 1 == arguments.length;
    if constexpr (!forward) place += stride;
#pragma unroll
    for (int group = 0; group < Groups; ++group) {
      typename Element::Input input;
      if (forward || !is_last) input = next_input(forward ? step : step + 1, place, group);
      exchanges[group].receive(step);
      const float product = multiply(step, group);
      if constexpr (forward) {
        const float h = elements[group].finish(arguments, step, place, product, input);
        if (!is_last) publish(step + 1, group, h);
      } else if (!is_last) {
        publish(step + 1, group, elements[group].finish(arguments, time(step + 1), place, product, input));
      } else {
        elements[group].end(arguments, product);
      }
    }
    if constexpr (forward) place += stride;
  }
  Exchange::end();
}

}  // namespace orthornn::cuda
