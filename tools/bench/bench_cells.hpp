#pragma once
// The cells that benchmarks time, by the names that the command line and the JSON give them.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bench/cudnn_rnn.hpp"
#include "bench/measured.hpp"
#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// A layer of ours that is timed whole, with the product of its input.
struct WholeLayer {
  RecurrentOptions options;
  /// Blocks of N rows in its weights.
  Index gates;
};

struct BenchCell {
  std::string name;
  /// What a comparison of all methods calls it; "" for those that it leaves out.
  std::string title;
  std::variant<TransitionOptions, WholeLayer, CudnnLayer> kind;

  bool is_whole_layer() const { return !std::holds_alternative<TransitionOptions>(kind); }
  bool has_reflections() const {
    return !is_whole_layer() && reflections_of(std::get<TransitionOptions>(kind)) != nullptr;
  }
};

/// Every parametrization by its own name, forms that only benchmarks name, LSTM, GRU, and in a build with
/// cuDNN its layers.
const std::vector<BenchCell>& bench_cells();
/// `name` is that of one of them.
const BenchCell& bench_cell(std::string_view name);

/// What becomes of a number of reflections that is above N.
enum class AboveN { is_refused, is_left_out };
/// The numbers that texts as N, N/2 or 128 stand for at N = `hidden`, each once. Throws UsageError.
std::vector<Index> reflections_at(const std::vector<std::string>& texts, Index hidden, AboveN above);

struct SizedCell {
  const BenchCell& cell;
  Index hidden;
  /// 0 for a cell without reflections.
  Index reflections;

  /// The options with L reflections. The cell is no whole layer.
  TransitionOptions transition() const;
};
/// All cells at each size, with each number of reflections. Throws UsageError.
std::vector<SizedCell> sized_cells(const std::vector<std::string>& names, const std::vector<Index>& hidden,
                                   const std::vector<std::string>& reflections, AboveN above);

/// What a cell is timed on.
struct SequenceSizes {
  Index length;
  Index batch;
  /// Of cells that are no whole layers.
  Activation activation;
};
/// Throws UsageError where --rollout names a way that the sizes do not allow.
void check_rollout(const SizedCell& sized, const SequenceSizes& sizes, const Execution& execution);
/// prepare and the recurrence forward; then backward, the gradient of the transition and of its parameters.
/// The input product, the same for every cell, is left out: random numbers stand in for W x + b. Whole layers
/// have it, and the gradients of the inputs and of the first states.
Measured measured_rollout(const SizedCell& sized, const SequenceSizes& sizes, const Execution& execution);

/// Where the construction of Q ends: at what a recurrence needs, or at the entries of Q, for which forms that
/// keep factors are multiplied out.
enum class ConstructionEnd { factors, entries };
/// Forming Q or its factors, and the parameters' gradient from that of Q.
Measured measured_construction(const SizedCell& sized, ConstructionEnd end, const Execution& execution);

/// What CWY gains over both ways to multiply reflections one by one, wherever N and L are the same, as JSON:
/// "over", "hidden", "reflections", and "factor", the ratio of the times. `name` is the key of the rows'
/// cells.
Json gains_of_cwy(const Json& rows, const char* name);

}  // namespace orthornn::program
