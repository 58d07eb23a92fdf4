#pragma once
// How a recurrence is computed: the form of CWY, and the way through time on a GPU. Whether Q fits on chip is
// decided here and nowhere else.

#include <cstddef>
#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/shape.hpp"
#include "orthornn/products/reflection_form.hpp"

namespace orthornn {

// Floating-point operations of a training step (docs/math.md, section 1.11), for hidden size N and L
// reflections.

/// One N x N product: forward, backward and weight gradient, a step a column.
constexpr double dense_operations(double n) { return 6 * n * n; }
/// Two N x L products. The sequential form by tiles has as many.
constexpr double factored_operations(double n, double l) { return 12 * n * l + 2 * l * l; }
/// Two sweeps over the reflections in the rollout, of 4 N L operations each. After it two more for the
/// states, and as much again for the gradient.
constexpr double rank_one_operations(double n, double l) { return 24 * n * l; }

// The times to which the choice on a CPU is fitted are of code that inverted S. So the next two functions
// count its operations, of which triangular solves need fewer (docs/math.md, section 1.11).

/// The Gram matrix, S^-1 and Q with their gradients, once for all steps and columns.
constexpr double dense_preparation(double n, double l) {
  return 6 * n * n * l + 12 * n * l * l + 5 * l * l * l;
}
/// The Gram matrix, S^-1, both products with it, and the gradient's product with U.
constexpr double factored_preparation(double n, double l) { return 8 * n * l * l + l * l * l; }
/// The gradient's product with U alone.
constexpr double sequential_preparation(double n, double l) { return 2 * n * l * l; }

/// Bytes of a row of a tile, in which the sequential form keeps columns side by side: a full register with
/// AVX-512, two with AVX2.
inline constexpr std::size_t tile_bytes = 64;

/// The form that takes least time on a CPU for T steps of B columns, where a tile has `lanes` columns. It
/// compares operations at the speed of a large matrix product. A product of a step reads its
/// matrix again, which costs as much as two columns more. A tile is computed whole, filled or not, and an
/// operation on it costs 1.4 times as much. Measured with one thread for B = 1, 16 and 128, T = 2, 10 and 50,
/// N from 32 to 512 and L from N / 8 to N, 176 sizes in all (tools/bench-results/cpu-forms.csv): the choice
/// is 2 % slower than the fastest form in the mean. To leave out preparation and tiles, as before, was 59 %
/// slower.
ReflectionForm fastest_form_on_cpu(double n, double l, double length, double batch, double lanes);

/// Operations a column that the factored form must save before it is faster in a GPU's stepwise rollout of
/// floats. It starts four more kernels a step, whose time the B columns of a batch share, and its products
/// are thinner. Measured on an H200 for B = 16, 128 and 1024, N from 256 to 4096 and L from 32 to 1024
/// (tools/bench-results/h200-forms.csv). The border, in millions, lies for fp32 between 5.9 and 22.0 at B =
/// 16, 3.01 and 3.24 at 128, 0 and 2.3 at 1024. For tf32 and bf16 it lies between 21.99 and 23.58 at 128, 4.6
/// and 5.9 at 1024.
constexpr double operations_to_save(Precision precision, double batch) {
  return precision == Precision::fp32 ? 1.5e6 + 0.2e9 / batch : 2.7e6 + 2.53e9 / batch;
}

/// Microseconds that a step takes in a GPU's stepwise rollout of floats, in one direction: two launches, and
/// a product of a matrix with `gates` rows for each of N units. cuBLAS has kernels of half the speed for tf32
/// and N that is no multiple of four. A step with gates takes those. Measured on an H200 for N from 1024 to
/// 4096; off by a fifth.
constexpr double stepwise_us(Index n, Index batch, int gates, Precision precision) {
  const double size = static_cast<double>(n);
  const double operations = 2 * gates * size * size * static_cast<double>(batch);
  if (precision == Precision::fp32) return 4.4 + operations / 3e7;
  return (7 + operations / 1.4e8) * (gates == 1 || n % 4 == 0 ? 1 : 2);
}

/// Microseconds that a training step takes for each of its T steps with the factored form, step by step on a
/// GPU in floats. Fitted to the times of tools/bench-results/h200-forms.csv, without that of N = 768, L = 128
/// and B = 16 in fp32, which is four times that of L = 512. The error is 11 % in root mean square for fp32,
/// and 8 % for tf32 and bf16.
constexpr double factored_step_us(double n, double l, double batch, Precision precision) {
  const double operations = factored_operations(n, l) * batch;
  return precision == Precision::fp32 ? 29.1 + 1.8e-5 * n * batch + operations / 3.9e7
                                      : 25.2 + 1.9e-5 * n * batch + operations / 1.8e8;
}
/// Microseconds that the gradient of a dense Q takes there for each step, which is one product of all steps.
constexpr double dense_gradient_us(double n, double batch, Precision precision) {
  return 2 * n * n * batch / (precision == Precision::fp32 ? 5.3e7 : 2.4e8);
}

/// Whether the dense form takes less time, or the factored form saves fewer operations than `to_save`.
constexpr bool dense_is_cheaper(double n, double l, double to_save) {
  return dense_operations(n) <= factored_operations(n, l) + to_save;
}

/// The form in which a product of L reflections takes least time for a training step, with the batch and the
/// length that the execution expects. On a GPU a matrix that one multiprocessor or a cluster holds always is
/// the fastest form, and one over the grid where its estimate is below that of the factors; beyond, the cost
/// of forming Q or its factors does not count, because T steps share it.
template <class T>
ReflectionForm fastest_form(Index hidden_size, Index reflections, const Execution& execution);

/// The way of `rollout_way` for a transition that is applied in `form`. Throws as that.
template <class T>
RolloutWay planned_way(const std::string& form, Index hidden_size, Index length, Index batch,
                       const Execution& execution);
/// Whether a recurrence over the grid goes by cuda::few_over_grid_rollout, which takes less time than
/// cuda::grid_rollout with few sequences.
bool goes_as_few_over_grid(Index hidden_size, Index batch, const Execution& execution);
/// The way of a recurrence of the layer `kind`, whose units have so many gates: stepwise or over the grid.
/// Throws ValueError where the execution names another way.
template <class T>
RolloutWay planned_gated_way(const char* kind, int gates, Index hidden_size, Index length, Index batch,
                             const Execution& execution);

}  // namespace orthornn
