#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/nn/delta_observation.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn::program {

/// A row of metrics.csv. Empty fields and numbers that are not finite are nullopt.
struct MetricsRow {
  std::int64_t step = 0;
  double seconds = 0;
  std::optional<double> loss, learning_rate, orthogonality_error, evaluation_loss;
  /// On validation data, in the order of `TrainingRun::metrics`.
  std::vector<std::optional<double>> metrics = {};
};

/// Share of right answers at a step of the sequences, 1 for the first.
struct StepAccuracy {
  Index step = 0;
  double share = 0;
};

/// How a model translates a sentence, and what it attends to.
struct AttentionMap {
  std::string source;
  /// "" if there is none.
  std::string reference;
  std::string translation;
  std::vector<std::string> source_tokens;
  std::vector<std::string> target_tokens;
  /// [target][source], each row of sum 1.
  std::vector<std::vector<float>> weights;
};

/// A saved model on test data.
struct TestedModel {
  /// Its name in the run directory; empty where it could not be saved.
  std::string model;
  std::int64_t step = 0;
  Evaluation evaluation = {};
};

/// What is known of a finished training beside its metrics.csv.
struct TestResults {
  std::uint64_t seed = 0;
  /// Steps of the training.
  std::int64_t steps = 0;
  TestedModel last = {};
  /// The model of the smallest validation loss.
  std::optional<TestedModel> best = {};
  /// The best model's translations have these scores.
  std::optional<double> bleu = {}, chrf = {};
};

/// What a page shows of a run directory of `orthornn train`.
struct TrainingRun {
  std::filesystem::path folder;
  std::string task;  // with its size: "copying, delay 200"
  std::string cell;
  Index hidden = 0;
  /// 0 for cells without reflections.
  Index reflections = 0;
  /// nullopt until there is a model.h5.
  std::optional<Index> parameters;
  /// The number of steps in the configuration.
  std::int64_t steps = 0;
  /// nullopt where only the data tell it.
  std::optional<double> baseline = {};
  /// Whether the last evaluation solves the task.
  bool solved = false;
  /// Metrics of the task.
  std::vector<Metric> metrics = {};
  std::vector<MetricsRow> rows;
  /// On test data with longer sequences than those that were trained on, where the task has such; steps
  /// without an answer are left out.
  std::vector<StepAccuracy> step_accuracies = {};
  /// Steps of the sequences that were trained on.
  Index trained_length = 0;
  /// Along a test sequence, whose steps before ranks were computed are `rank_steps`; 0 for the first.
  std::vector<DeltaObservation> delta_products = {};
  std::vector<Index> rank_steps = {};
  /// Of a run of the task translate.
  std::vector<AttentionMap> attention = {};
  /// Nothing until the training has ended.
  std::optional<TestResults> results = {};
  /// Notes for the reader: rows that were left out, and why.
  std::vector<std::string> notes;

  /// The last row with an evaluation, and the row with the lowest validation loss; nullptr without
  /// evaluations.
  const MetricsRow* last_evaluation() const;
  const MetricsRow* best_evaluation() const;
  /// The evaluation of a row with an `evaluation_loss`.
  Evaluation evaluation(const MetricsRow& row) const;
};

/// Mean, standard deviation and median of a number that several trainings have.
struct Spread {
  std::string name;
  double mean = 0, deviation = 0, median = 0;
};

/// What a page shows of trainings that differ in the seed alone.
struct SeedsRun {
  std::filesystem::path folder;
  std::vector<Spread> spreads;
};

/// The cells of a row of metrics.csv: "a,,b" gives a, nothing and b.
std::vector<std::string> cells_of(const std::string& row);

/// Adds the rows of a metrics.csv, with `run.metrics`, and notes which rows are left out. Throws FileError
/// for another file.
void read_metrics(TrainingRun& run, const std::filesystem::path& file);

}  // namespace orthornn::program
