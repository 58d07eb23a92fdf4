#include "commands/delta_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <optional>

#include "commands/any_model.hpp"
#include "commands/program.hpp"
#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

constexpr double large_beta = 1.9, small_beta = 0.1;

/// Multiplications of a sequence, and of its singular values: a few seconds on one core.
constexpr double most_work = 4e10;
/// Numbers that are kept of a sequence, and that all states have: half a gigabyte.
constexpr double most_numbers = 1e8;
/// Effective ranks of a head.
constexpr Index most_ranks = 64;

double size_of(Index a, Index b) { return static_cast<double>(a) * static_cast<double>(b); }

/// What a step of the model costs, about, and its states.
struct Cost {
  double work = 0, numbers = 0, state_numbers = 0, rank_work = 0;

  explicit Cost(const SequenceModel<float>& model) {
    for (const Parameter& parameter : model.parameters().list()) {
      work += static_cast<double>(parameter.shape.count());
      // What a product reads and writes is kept, and what follows from it.
      for (int i = 0; i < parameter.shape.rank(); ++i) numbers += 4 * static_cast<double>(parameter.shape[i]);
    }
    const std::vector<LayerOptions> layers = model.options().cells;
    each_layer(layers, [&](const LayerOptions& layer) {
      const auto* delta = std::get_if<DeltaProductCell>(&layer);
      if (delta == nullptr) return;
      const double factors = static_cast<double>(delta->householder);
      const double states = static_cast<double>(delta->heads) * size_of(delta->key_size, delta->value_size);
      state_numbers += 4 * states;
      // Once in the model, and once for its ranks. Of a chunk the state is kept.
      work += 4 * factors * states;
      numbers += factors * states / static_cast<double>(DeltaProductOptions::cpu_chunk);
      rank_work += 20 * states * static_cast<double>(std::min(delta->key_size, delta->value_size));
    });
  }

  Index most_steps() const {
    if (state_numbers > most_numbers) return 0;
    return static_cast<Index>(std::min(most_work / work, most_numbers / numbers));
  }
  /// Evenly over the sequence, the last step included.
  std::vector<Index> rank_steps(Index length) const {
    const Index count =
        std::min({length, most_ranks, static_cast<Index>(std::min(most_work / rank_work, 1e9))});
    std::vector<Index> steps;
    for (Index i = 1; i <= count; ++i) steps.push_back(i * length / count - 1);
    return steps;
  }
};

/// The model's task with sequences of `length` steps, or its own for 0, one in a batch.
std::unique_ptr<Task> task_of(const ModelFileInfo& info, Index length, Index most_steps,
                              const DataFiles& data) {
  if (most_steps < 1) throw ValueError("it would take long at these sizes");
  if (info.task_config.empty()) throw FileError("the model was saved without a task");
  if (length > most_steps) {
    throw UsageError(
        fmt::format("--length {} was given; a model of these sizes is followed over at most {} steps", length,
                    most_steps));
  }
  TaskSource source{.batch = 1, .seed = info.seed, .input_order = info.permutation, .parts = info.parts};
  data.add_to(source);
  std::unique_ptr<Task> task = make_task(info.task_config, source);
  if (length == 0 && task->length() <= most_steps) return task;
  std::unique_ptr<Task> other =
      length == 0 ? task->with_length(most_steps, 1) : as_usage([&] { return task->with_length(length, 1); });
  if (other != nullptr) return other;
  if (length != 0)
    throw UsageError(fmt::format(
        "--length was given, and the lengths of sequences of the task {} cannot be chosen", info.task_name));
  throw ValueError(fmt::format(
      "a sequence of the task {} has {} steps; a model of these sizes is followed over at most {}",
      info.task_name, task->length(), most_steps));
}

struct ValueSpread {
  double least, median, most;

  /// Of some numbers.
  explicit ValueSpread(const std::vector<double>& values)
      : least(std::ranges::min(values)), median(program::median(values)), most(std::ranges::max(values)) {}
};

/// What is said of one head, which has been there for a step at least.
struct HeadSummary {
  ValueSpread betas;
  double large_share = 0, small_share = 0;
  /// Median of 2 - beta over step sizes above 1, which are meant to reflect.
  std::optional<double> distance_to_2;
  double mean_rank = 0;
  /// In degrees.
  std::optional<ValueSpread> angles;
  double real_share = 0;

  explicit HeadSummary(const DeltaHeadObservation& head) : betas(head.betas) {
    const auto share_of = [&](const auto& is_meant) {
      return static_cast<double>(std::ranges::count_if(head.betas, is_meant)) /
             static_cast<double>(head.betas.size());
    };
    large_share = share_of([](double beta) { return beta > large_beta; });
    small_share = share_of([](double beta) { return beta < small_beta; });
    std::vector<double> distances;
    for (const double beta : head.betas) {
      if (beta > 1) distances.push_back(2 - beta);
    }
    if (!distances.empty()) distance_to_2 = program::median(distances);
    for (const double rank : head.ranks) mean_rank += rank / static_cast<double>(head.ranks.size());
    const auto turning = static_cast<double>(head.angles.size()),
               still = static_cast<double>(head.real_steps);
    if (turning + still > 0) real_share = still / (turning + still);
    std::vector<double> degrees;
    for (const double angle : head.angles) degrees.push_back(angle * 180 / std::numbers::pi);
    if (!degrees.empty()) angles = ValueSpread(degrees);
  }
};

Json json_of(const ValueSpread& spread) {
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
}

Json json_of(const DeltaHeadObservation& head, bool has_angles) {
  const HeadSummary summary(head);
  Json json = {{"beta", json_of(summary.betas)}};
  json["beta"]["share_above_1.9"] = summary.large_share;
  json["beta"]["share_below_0.1"] = summary.small_share;
  json["beta"]["median_distance_to_2_above_1"] =
      summary.distance_to_2 ? Json(*summary.distance_to_2) : Json();
  if (!head.ranks.empty()) {
    json["effective_rank"] = {
        {"mean", summary.mean_rank}, {"max", std::ranges::max(head.ranks)}, {"last", head.ranks.back()}};
  }
  if (has_angles) {
    json["rotation_degrees"] = summary.angles ? json_of(*summary.angles) : Json();
    json["share_of_real_eigenvalues"] = summary.real_share;
  }
  return json;
}

std::string angle_columns(const HeadSummary& summary) {
  const std::string real = fmt::format("{:7.1f} %", 100 * summary.real_share);
  if (!summary.angles) return fmt::format("{:>11}{:>8}{:>7}{}", "-", "-", "-", real);
  return fmt::format("{:11.1f}{:8.1f}{:7.1f}{}", summary.angles->least, summary.angles->median,
                     summary.angles->most, real);
}

}  // namespace

bool has_delta_products(const AnyModelOptions& options) {
  bool found = false;
  const std::vector<LayerOptions> layers = layers_of(options);
  each_layer(layers, [&](const LayerOptions& layer) {
    found = found || std::holds_alternative<DeltaProductCell>(layer);
  });
  return found;
}

Index most_delta_steps(const SequenceModel<float>& model) { return Cost(model).most_steps(); }

DeltaFigures delta_figures(SequenceModel<float>& model, const ModelFileInfo& info, Index length,
                           const DataFiles& data) {
  const Cost cost(model);
  const std::unique_ptr<Task> task = task_of(info, length, cost.most_steps(), data);
  task->load();
  Batch batch;
  task->evaluation_batch(HeldOut::test, 0, batch);
  const ConstTensorView<std::int32_t> lengths = batch.integers(batch_names::lengths);
  DeltaFigures figures{.steps = lengths.empty() ? task->length() : static_cast<Index>(lengths(0))};
  if (figures.steps < 1) throw ValueError("the first test sequence has no step");
  figures.rank_steps = cost.rank_steps(figures.steps);
  figures.layers = observe_delta_products<float>(model, batch, figures.rank_steps);
  return figures;
}

Json json_of(const DeltaFigures& figures) {
  Json json = {{"steps", figures.steps}, {"effective_ranks_after_steps", figures.rank_steps.size()}};
  for (const DeltaObservation& layer : figures.layers) {
    Json& own = json["layers"].emplace_back(Json{{"layer", layer.layer}});
    for (const DeltaHeadObservation& head : layer.heads)
      own["heads"].push_back(json_of(head, layer.has_angles));
  }
  return json;
}

void print_delta_figures(const DeltaFigures& figures) {
  if (figures.layers.empty()) return;
  const bool has_angles = std::ranges::any_of(figures.layers, &DeltaObservation::has_angles);
  fmt::print("step sizes beta, effective ranks of the state{} along the first test sequence, of {} steps:\n",
             has_angles ? " and rotation angles" : "", figures.steps);
  fmt::print("  {:14} {:>4}{:>10}{:>8}{:>8}{:>9}{:>9}{:>9}{:>11}{:>7}{:>7}{}\n", "layer", "head", "beta: min",
             "median", "max", ">1.9", "<0.1", "2-beta", "rank: mean", "max", "last",
             has_angles ? fmt::format("{:>11}{:>8}{:>7}{:>9}", "angle: min", "median", "max", "real") : "");
  for (const DeltaObservation& layer : figures.layers) {
    for (std::size_t h = 0; h < layer.heads.size(); ++h) {
      const DeltaHeadObservation& head = layer.heads[h];
      const HeadSummary summary(head);
      fmt::print("  {:14} {:>4}{:10.4f}{:8.4f}{:8.4f}{:7.1f} %{:7.1f} %{:>9}", layer.layer, h,
                 summary.betas.least, summary.betas.median, summary.betas.most, 100 * summary.large_share,
                 100 * summary.small_share,
                 summary.distance_to_2 ? fmt::format("{:.1e}", *summary.distance_to_2) : "-");
      fmt::print("{}{}\n",
                 head.ranks.empty() ? fmt::format("{:>11}{:>7}{:>7}", "-", "-", "-")
                                    : fmt::format("{:11.2f}{:7.2f}{:7.2f}", summary.mean_rank,
                                                  std::ranges::max(head.ranks), head.ranks.back()),
                 layer.has_angles ? angle_columns(summary) : "");
    }
  }
  fmt::print("  2-beta: median where beta is above 1{}\n",
             has_angles
                 ? "; angle: degrees that the product of a step's two factors turns; real: steps where "
                   "its eigenvalues are real, so that it turns nothing"
                 : "");
}

}  // namespace orthornn::program
