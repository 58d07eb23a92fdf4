#pragma once
// Starts rollouts over the grid.

#include <algorithm>
#include <iterator>

#include "cuda/core/launch.hpp"
#include "cuda/products/grid_plan.hpp"
#include "cuda/rollouts/persistent/grid_rollout.cuh"
#include "orthornn/core/error.hpp"

namespace orthornn::cuda {

/// A matrix of N units with `gates` rows each, [gates N, N] in C order, and N of a group with padding.
struct GridMatrix {
  const float* data;
  int gates, n, padded;

  /// Forward, rows are gates of units and columns units; backward the other way round.
  template <Direction direction>
  __device__ __forceinline__ float at(int gate, int unit, int column) const {
    if constexpr (direction == Direction::forward) {
      return unit < n && column < n ? data[(static_cast<Index>(gate) * n + unit) * n + column] : 0.0f;
    } else {
      const int other = column % padded;
      return unit < n && column / padded < gates && other < n
                 ? data[(static_cast<Index>(column / padded) * n + other) * n + unit]
                 : 0.0f;
    }
  }
};

/// The matrix as operands, one a thread.
template <Direction direction, class Shape>
__global__ void pack_operands(GridMatrix matrix, int chunks, Index count, uint4* weights) {
  using Operands = typename Shape::Operands;
  const Index number = grid_thread();
  if (number >= count) return;
  const int lane = static_cast<int>(number % 32), row_tile = static_cast<int>(number / 32 % Shape::row_tiles);
  const int part = static_cast<int>(number / (32 * Shape::row_tiles) % (Operands::depths * Operands::terms));
  const Index chunk = number / Shape::chunk_operands;
  const int first_column = static_cast<int>(chunk % chunks) * Operands::chunk;
  const int first_unit = static_cast<int>(chunk / chunks) * Shape::units + row_tile % Shape::unit_tiles * 16;
  const auto operand = [&](int i) {
    return Operands::left(
        part / Operands::terms, part % Operands::terms, i, lane / 4, lane % 4, [&](int r, int c) {
          return matrix.at<direction>(row_tile / Shape::unit_tiles, first_unit + r, first_column + c);
        });
  };
  weights[number] = make_uint4(operand(0), operand(1), operand(2), operand(3));
}

/// No word of the state is written, but the columns that no block has, which are zeros.
template <class Shape>
__global__ void clear_states(int stride, int columns, Index words, unsigned* states) {
  constexpr int numbers = sizeof(unsigned) / sizeof(typename Shape::Operands::Exchanged);
  const Index i = grid_thread();
  if (i < words) states[i] = i * numbers % stride < columns ? unwritten : 0;
}

/// Starts grid_rollout for the matrix [gates N, N].
template <class Shape, class Element>
void start_grid_rollout(Context& gpu, const typename Element::Arguments& arguments, GridMatrix matrix,
                        const GridPlan& plan) {
  using Exchanged = typename Shape::Operands::Exchanged;
  constexpr GridTiles tiles{Shape::row_tiles, Shape::sequence_tiles, Shape::sets};
  static_assert(Shape::sum_bytes == tiles.sum_bytes() &&
                Shape::Operands::chunk == grid_chunk(Shape::Operands::terms) &&
                Shape::chunk_operands * sizeof(uint4) == tiles.chunk_bytes(Shape::Operands::terms));
  constexpr unsigned threads = 256;
  matrix.padded = plan.blocks * Shape::units;
  const int columns = Shape::published * matrix.padded;
  const int stride = std::max(columns, plan.chunks * Shape::Operands::chunk);
  const Index operands = Index{plan.blocks} * plan.chunks * Shape::chunk_operands;
  const Index words = Index{plan.groups} * Shape::sets * plan.rounds * grid_buffers * Shape::sequences *
                      stride * static_cast<Index>(sizeof(Exchanged)) / static_cast<Index>(sizeof(unsigned));
  auto* const weights = reinterpret_cast<uint4*>(
      gpu.scratch<unsigned char>(static_cast<std::size_t>(operands) * sizeof(uint4) +
                                 static_cast<std::size_t>(words) * sizeof(unsigned)));
  auto* const states = reinterpret_cast<unsigned*>(weights + operands);
  launch(gpu, pack_operands<Element::direction, Shape>,
         {.grid = blocks_for(operands, threads), .block = threads}, matrix, plan.chunks, operands, weights);
  GridArguments grid{.blocks = plan.blocks,
                     .rounds = plan.rounds,
                     .sequences = plan.sequences,
                     .first_sequence = 0,
                     .chunks = plan.chunks,
                     .resident = plan.resident,
                     .stride = stride,
                     .weights = weights,
                     .states = states};
  for (int turn = 0; turn < plan.turns; ++turn) {
    launch(gpu, clear_states<Shape>, {.grid = blocks_for(words, threads), .block = threads}, stride, columns,
           words, states);
    launch(gpu, grid_rollout<Shape, Element>,
           {.grid = static_cast<unsigned>(plan.groups * plan.blocks),
            .block = Shape::threads,
            .shared = Shape::shared_bytes(plan.resident),
            .together = true},
           arguments, grid);
    grid.first_sequence += plan.groups * Shape::sets * plan.rounds * plan.sequences;
  }
}

/// The same with the shape of the plan, for Terms of Element's direction.
template <int Terms, class Element, int number = 0>
void start_planned(Context& gpu, const typename Element::Arguments& arguments, const GridMatrix& matrix,
                   const GridPlan& plan) {
  if constexpr (number < std::size(grid_shapes)) {
    constexpr GridTiles tiles = grid_shapes[number];
    if constexpr (has_grid_kernel(tiles, Terms, Element::gates, Element::published)) {
      if (plan.tiles == tiles) {
        return start_grid_rollout<GridShape<Terms, Element::gates, tiles.rows / Element::gates,
                                            tiles.sequences, tiles.sets, Element::published>,
                                  Element>(gpu, arguments, matrix, plan);
      }
    }
    start_planned<Terms, Element, number + 1>(gpu, arguments, matrix, plan);
  } else {
    throw DeviceError("a plan over the grid has a shape without a kernel");
  }
}

template <class Element>
void start_in_precision(Context& gpu, const typename Element::Arguments& arguments, const GridMatrix& matrix,
                        const GridPlan& plan) {
  switch (plan.terms) {
    case 1:
      return start_planned<1, Element>(gpu, arguments, matrix, plan);
    case 2:
      return start_planned<2, Element>(gpu, arguments, matrix, plan);
    default:
      return start_planned<3, Element>(gpu, arguments, matrix, plan);
  }
}

}  // namespace orthornn::cuda
