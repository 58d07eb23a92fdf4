#include "pages/training_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>

#include "pages/answer_figures.hpp"
#include "pages/html_page.hpp"
#include "pages/layer_figures.hpp"
#include "pages/run_curves.hpp"
#include "pages/run_tables.hpp"

namespace orthornn::program {
namespace {

/// A column of metrics.csv.
struct Quantity {
  std::string title;
  std::string caption;
  PlotAxis axis;
  std::function<std::optional<double>(const MetricsRow&)> value;
  bool has_guesser = false;
};

/// "Validation sequence accuracy", over validation data.
Quantity quantity_of(const Metric& metric) {
  std::string words = metric.name;
  std::ranges::replace(words, '_', ' ');
  const auto value = [name = metric.name, unit = metric.is_share ? 100 : 1](const MetricsRow& row) {
    std::optional<double> found = Evaluation{.metrics = row.metrics}.metric(name);
    if (found) *found *= unit;
    return found;
  };
  return {"Validation " + words,
          "On validation data, for tasks that have this metric.",
          {.title = metric.title + (metric.is_share ? " [%]" : "")},
          value};
}

/// What is drawn of these runs.
std::vector<Quantity> quantities_of(const std::vector<TrainingRun>& runs) {
  std::vector<Quantity> quantities = {
      {"Training loss",
       "Of the batch at each logged step. A guesser does not look at the input.",
       {.title = "loss", .logarithmic = true},
       &MetricsRow::loss,
       true},
      {"Validation loss",
       "On validation data. A guesser does not look at the input.",
       {.title = "loss", .logarithmic = true},
       &MetricsRow::evaluation_loss,
       true}};
  std::set<std::string> seen;
  for (const TrainingRun& run : runs) {
    for (const Metric& metric : run.metrics) {
      if (seen.insert(metric.name).second) quantities.push_back(quantity_of(metric));
    }
  }
  quantities.push_back(
      {"Orthogonality error",
       "How far the matrix A, by which the recurrence multiplies, is from orthogonal. Rounding alone leaves "
       "about 1e-7 in fp32, and more in tf32 and bf16. An error of exactly 0 has no place on a logarithmic "
       "axis.",
       {.title = "largest entry of |I − AᵀA|", .logarithmic = true},
       &MetricsRow::orthogonality_error});
  quantities.push_back({"Learning rate",
                        "Of the parameters that are not orthogonal.",
                        {.title = "learning rate"},
                        &MetricsRow::learning_rate});
  quantities.push_back({"Gradient norm",
                        "Of the whole gradient of the loss, before it is clipped.",
                        {.title = "gradient norm", .logarithmic = true},
                        &MetricsRow::gradient_norm});
  quantities.push_back({"Length of reflection vectors",
                        "Mean length of the vectors of cells with reflections. Their directions alone count: "
                        "the longer a vector is, the less a step turns it.",
                        {.title = "mean length"},
                        &MetricsRow::reflection_norm});
  // What no run has is not drawn, such as the error of cells that are not orthogonal.
  std::erase_if(quantities, [&](const Quantity& quantity) {
    return std::ranges::none_of(runs, [&](const TrainingRun& run) {
      return std::ranges::any_of(run.rows,
                                 [&](const MetricsRow& row) { return quantity.value(row).has_value(); });
    });
  });
  return quantities;
}

Plot plot_of(const std::vector<RunGroup>& groups, const Quantity& quantity, bool over_seconds) {
  Plot plot{.title = fmt::format("{} over {}", quantity.title, over_seconds ? "time" : "steps"),
            .caption = quantity.caption,
            .x = {.title = over_seconds ? "training time [s]" : "training step"},
            .y = quantity.axis};
  std::set<std::string> tasks;
  for (const RunGroup& group : groups) {
    plot.series.push_back(curve_of(group, [&](const TrainingRun& run) {
      std::vector<CurvePoint> points;
      for (const MetricsRow& row : run.rows) {
        if (const std::optional<double> y = quantity.value(row))
          points.push_back({row.step, over_seconds ? row.seconds : static_cast<double>(row.step), *y});
      }
      return points;
    }));
    const TrainingRun& first = group.first();
    if (quantity.has_guesser && first.baseline && tasks.insert(first.task).second)
      plot.levels.push_back({fmt::format("a guesser ({})", first.task), *first.baseline});
  }
  return plot;
}

void add_test_results(HtmlPage& page, const std::vector<TrainingRun>& runs,
                      const std::vector<SeedsRun>& seeds) {
  page.heading("Validation and test data");
  for (const HtmlTable& table : {validation_table(runs), results_table(runs), spreads_table(seeds)}) {
    if (!table.rows.empty()) page.table(table);
  }
}

/// What metrics.csv has, over steps and over time.
void add_curves(HtmlPage& page, const std::vector<TrainingRun>& runs, const std::vector<RunGroup>& groups) {
  if (std::ranges::any_of(runs, [](const TrainingRun& run) { return run.rows.size() > most_plot_points; })) {
    page.paragraph(fmt::format(
        "Lines of more than {} points show every second of them, every third and so on.", most_plot_points));
  }
  if (groups.size() < runs.size()) {
    page.paragraph(
        "Runs that differ in the seed alone are one line: at each step the mean of those that have the step, "
        "with a band from the smallest to the largest.");
  }
  std::vector<HtmlCurves> curves;
  for (const Quantity& quantity : quantities_of(runs))
    curves.push_back({quantity.title, {plot_of(groups, quantity, false), plot_of(groups, quantity, true)}});
  page.curves(curves);
}

/// How far beyond the length of the training a model is right.
void add_step_accuracies(HtmlPage& page, const std::vector<RunGroup>& groups) {
  Plot plot{.title = "Accuracy over the steps of a sequence",
            .caption =
                "Share of right answers at each step of test sequences that are four times as long as "
                "those of the training. A name has the length of the training in brackets.",
            .x = {.title = "step of the sequence"},
            .y = {.title = "right answers [%]"}};
  for (const RunGroup& group : groups) {
    plot.series.push_back(curve_of(group, [](const TrainingRun& run) {
      std::vector<CurvePoint> points;
      for (const auto& [step, share] : run.step_accuracies)
        points.push_back({step, static_cast<double>(step), 100 * share});
      return points;
    }));
    plot.series.back().name += fmt::format(" ({})", group.first().trained_length);
  }
  if (std::ranges::all_of(plot.series, [](const PlotSeries& line) { return line.points.empty(); })) return;
  page.heading(plot.title);
  page.figures({plot});
}

/// The heat maps of one sentence beside each other, run by run.
void add_attention(HtmlPage& page, const std::vector<TrainingRun>& runs) {
  std::vector<std::pair<SentencePair, std::vector<HtmlMap>>> sentences;
  for (const TrainingRun& run : runs) {
    for (const auto& [sentence, translation] : run.attention) {
      auto maps = std::ranges::find(sentences, sentence.source, [](const auto& s) { return s.first.source; });
      if (maps == sentences.end()) maps = sentences.insert(sentences.end(), {sentence, {}});
      maps->second.push_back({.title = run.name,
                              .caption = fmt::format("Translation: {}", translation.translation.text),
                              .rows = translation.target,
                              .columns = translation.source,
                              .weights = translation.attention});
    }
  }
  if (sentences.empty()) return;
  page.heading("Attention");
  page.paragraph(
      "Each row is a token of the translation, each column a token of the sentence. The stronger the colour "
      "of a cell, the more the token of the row attends to the token of the column; the weights of a row sum "
      "to 1. </s> is the end of a sentence. The pointer shows the weight.");
  for (const auto& [sentence, maps] : sentences) {
    page.subheading(sentence.source);
    if (!sentence.target.empty()) page.paragraph(fmt::format("Reference: {}", sentence.target));
    page.maps(maps);
  }
}

}  // namespace

std::string training_page(std::vector<TrainingRun> runs, const std::vector<SeedsRun>& seeds) {
  set_names(runs);
  const std::vector<RunGroup> groups = groups_of(runs);
  HtmlPage page(runs.size() == 1 ? fmt::format("Training run {}", runs[0].name)
                                 : fmt::format("{} training runs", runs.size()));
  page.table(runs_table(runs));
  for (const TrainingRun& run : runs) {
    for (const std::string& note : run.notes) page.paragraph(fmt::format("{}: {}.", run.name, note));
  }
  add_curves(page, runs, groups);
  add_test_results(page, runs, seeds);
  add_answers(page, runs);
  add_step_accuracies(page, groups);
  add_eigenvalue_angles(page, groups);
  add_delta_products(page, runs);
  add_attention(page, runs);
  return page.str();
}

}  // namespace orthornn::program
