#pragma once
// How a recurrence is computed: the form of CWY, and the way through time on a GPU. Whether Q fits on chip is
// decided here and nowhere else.

#include <string>

#include "orthornn/core/execution.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

// Floating-point operations of a step a column, forward, backward and weight gradient together (math.md
// section 1), for hidden size N and L reflections.

/// One N x N product.
constexpr double dense_operations(double n) { return 6 * n * n; }
/// Two N x L products. The sequential product by tiles has as many.
constexpr double factored_operations(double n, double l) { return 12 * n * l + 2 * l * l; }
/// Two sweeps over the reflections in the rollout. After it, two more and the same work again for the
/// gradient.
constexpr double rank_one_operations(double n, double l) { return 20 * n * l; }

/// Operations a column that the factored form must save before it is faster in a GPU's stepwise rollout of
/// floats. It starts four more kernels a step, whose time the B columns of a batch share, and its products
/// are thinner. Measured on an H200 for B = 16, 128 and 1024, N from 256 to 4096 and L from 32 to 1024
/// (tools/bench-results/h200-forms.csv). The border, in millions, lies for fp32 between 5.9 and 22.0 at B =
/// 16, 3.01 and 3.24 at 128, 0 and 2.3 at 1024. For tf32 and bf16 it lies between 21.99 and 23.58 at 128, 4.6
/// and 5.9 at 1024.
constexpr double operations_to_save(Precision precision, double batch) {
  return precision == Precision::fp32 ? 1.5e6 + 0.2e9 / batch : 2.7e6 + 2.53e9 / batch;
}

/// Whether the dense form takes less time, or the factored form saves fewer operations than `to_save`.
constexpr bool dense_is_cheaper(double n, double l, double to_save) {
  return dense_operations(n) <= factored_operations(n, l) + to_save;
}

/// Whether a product of L reflections takes less time a step, forward and backward, as one matrix than in its
/// factors, for batches as the execution expects them. The cost of forming Q or its factors does not count,
/// because T steps share it. On a GPU a matrix that fits on chip always is the faster form.
template <class T>
bool dense_is_faster(Index hidden_size, Index reflections, const Execution& execution);

/// The way of `rollout_way` for a transition that is applied in `form`. Throws as that.
template <class T>
RolloutWay planned_way(const std::string& form, Index hidden_size, Index length, Index batch,
                       const Execution& execution);

}  // namespace orthornn
