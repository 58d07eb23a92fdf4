#include "pages/run_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "support/number_text.hpp"

namespace orthornn::program {
namespace {

/// A text for a number that there is not.
constexpr const char* no_value = "–";

std::string time_text(double seconds) {
  // A damaged file may have so many seconds that the hours would overflow.
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : duration(seconds);
}

/// "0.125, 98.50 % right": loss and metrics.
std::string evaluation_text(const Evaluation& evaluation) {
  return short_number(evaluation.loss) + metrics_text(evaluation);
}

std::string score_text(const std::optional<double>& score) {
  return score ? fmt::format("{:.2f}", *score) : no_value;
}

std::string state_text(const TrainingRun& run) {
  if (run.solved) return "solved";
  if (run.results && run.results->ended_by == "patience" && !run.rows.empty() &&
      run.rows.back().step == run.results->steps)
    return "stopped early";
  return !run.rows.empty() && run.rows.back().step >= run.steps ? "complete" : "not at its end";
}

bool has_translations(const std::vector<TrainingRun>& runs) {
  return std::ranges::any_of(runs, [](const TrainingRun& run) { return run.results && run.bleu; });
}

/// Those that the test data of some run have.
std::vector<Metric> tested_metrics(const std::vector<TrainingRun>& runs) {
  std::vector<Metric> metrics;
  for (const TrainingRun& run : runs) {
    if (!run.results) continue;
    for (const auto& [metric, value] : run.results->best_or_last().evaluation.metrics) {
      if (std::ranges::find(metrics, metric.name, &Metric::name) == metrics.end()) metrics.push_back(metric);
    }
  }
  return metrics;
}

/// Loss and metrics of the run on test data, a cell each.
void add_test_cells(std::vector<std::string>& row, const TrainingRun& run,
                    const std::vector<Metric>& metrics) {
  const Evaluation* tested = run.results ? &run.results->best_or_last().evaluation : nullptr;
  row.push_back(tested != nullptr ? short_number(tested->loss) : no_value);
  for (const Metric& metric : metrics) {
    const std::optional<double> value = tested != nullptr ? tested->metric(metric.name) : std::nullopt;
    row.push_back(!value            ? no_value
                  : metric.is_share ? fmt::format("{:.2f}", 100 * *value)
                                    : fmt::format("{:.4g}", *value));
  }
}

}  // namespace

HtmlTable runs_table(const std::vector<TrainingRun>& runs) {
  HtmlTable table{.caption =
                      "The runs; test data are for the model of the smallest validation loss, or else for "
                      "the last one",
                  .columns = {"run", "task", "cell", "state", "N", "L", "parameters", "steps", "time",
                              "best validation loss", "test loss"},
                  .naming_columns = 4};
  const std::vector<Metric> metrics = tested_metrics(runs);
  for (const Metric& metric : metrics)
    table.columns.push_back(metric.title + (metric.is_share ? " [%]" : ""));
  if (has_translations(runs)) table.columns.insert(table.columns.end(), {"BLEU", "chrF2"});
  for (const TrainingRun& run : runs) {
    const MetricsRow* best = run.best_evaluation();
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {run.name,
           run.task,
           run.cell,
           state_text(run),
           std::to_string(run.hidden),
           run.reflections > 0 ? std::to_string(run.reflections) : no_value,
           run.parameters ? std::to_string(*run.parameters) : no_value,
           fmt::format("{} of {}", run.rows.empty() ? 0 : run.rows.back().step, run.steps),
           run.rows.empty() ? no_value : time_text(run.rows.back().seconds),
           best != nullptr ? short_number(*best->evaluation_loss) : no_value};
    add_test_cells(row, run, metrics);
    if (has_translations(runs)) row.insert(row.end(), {score_text(run.bleu), score_text(run.chrf)});
  }
  return table;
}

HtmlTable validation_table(const std::vector<TrainingRun>& runs) {
  HtmlTable table{.caption = "Loss and metrics on validation data",
                  .columns = {"run", "a guesser's loss", "best", "at step", "last"}};
  for (const TrainingRun& run : runs) {
    const MetricsRow *best = run.best_evaluation(), *last = run.last_evaluation();
    table.rows.push_back({run.name, run.baseline ? short_number(*run.baseline) : no_value,
                          best != nullptr ? evaluation_text(best->evaluation()) : no_value,
                          best != nullptr ? std::to_string(best->step) : no_value,
                          last != nullptr ? evaluation_text(last->evaluation()) : no_value});
  }
  return table;
}

HtmlTable results_table(const std::vector<TrainingRun>& runs) {
  HtmlTable table{.caption =
                      "Loss and metrics on test data, when the training ended; best is the model of the "
                      "smallest validation loss",
                  .columns = {"run", "seed", "steps", "best at step", "best", "last"}};
  if (has_translations(runs)) table.columns.insert(table.columns.end(), {"BLEU", "chrF2"});
  for (const TrainingRun& run : runs) {
    if (!run.results) continue;
    const TestedModel* best = run.results->best ? &*run.results->best : nullptr;
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {run.name,
           std::to_string(run.results->seed),
           std::to_string(run.results->steps),
           best != nullptr ? std::to_string(best->step) : no_value,
           best != nullptr ? evaluation_text(best->evaluation) : no_value,
           evaluation_text(run.results->last.evaluation)};
    if (has_translations(runs)) row.insert(row.end(), {score_text(run.bleu), score_text(run.chrf)});
  }
  return table;
}

HtmlTable spreads_table(const std::vector<SeedsRun>& seeds) {
  HtmlTable table{.caption = "Seeds: test data of the best model of each training",
                  .columns = {"folder", "of", "mean", "standard deviation", "median"},
                  .naming_columns = 2};
  for (const SeedsRun& run : seeds) {
    for (const Spread& spread : run.spreads) {
      table.rows.push_back({run.folder.string(), spread.name, short_number(spread.mean),
                            short_number(spread.deviation), short_number(spread.median)});
    }
  }
  return table;
}

}  // namespace orthornn::program
