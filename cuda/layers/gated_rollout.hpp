#pragma once
// Recurrences of gated layers over the grid, for sizes that grid_plan takes.

#include <array>
#include <cstdint>

#include "cuda/products/grid_plan.hpp"
#include "cuda/rollouts/rollout_arguments.hpp"

namespace orthornn::cuda {

/// What a gated recurrence of N units reads and writes: device memory in C order; null for what is not there.
/// G is the number of gates. States are h, and c of an LSTM.
struct GatedRolloutArguments {
  Device device;
  Index length;                           ///< T
  Index batch;                            ///< B
  Index hidden_size;                      ///< N
  const std::int32_t* lengths = nullptr;  ///< [B] or null
  /// [T, B, G N]. Forward: W x + b -> gates. Backward: gates -> gradients of their arguments.
  float* gates = nullptr;
  /// [T, B, G N] of a GRU. Forward: the last N numbers of a row get R h + b'. Backward: gradients of R h +
  /// b'.
  float* products = nullptr;
  const float* product_bias = nullptr;      ///< b' [G N] of a GRU, forward
  std::array<float*, 2> states = {};        ///< [T + 1, B, N], the first states first
  std::array<float*, 2> last = {};          ///< [B, N] or null, forward
  const float* d_h = nullptr;               ///< [T, B, N], backward
  std::array<const float*, 2> d_last = {};  ///< [B, N] or null, backward
  std::array<float*, 2> d_first = {};       ///< [B, N], backward
};

/// From R [G N, N], as a plan for these sizes and the direction says.
void lstm_grid_rollout(Direction direction, const GatedRolloutArguments& arguments, const float* weights,
                       const GridPlan& plan);
void gru_grid_rollout(Direction direction, const GatedRolloutArguments& arguments, const float* weights,
                      const GridPlan& plan);

}  // namespace orthornn::cuda
