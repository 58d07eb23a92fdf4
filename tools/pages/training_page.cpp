#include "pages/training_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <numbers>
#include <set>

#include "pages/html_page.hpp"
#include "support/number_text.hpp"

namespace orthornn::program {
namespace {

/// A text for a number that there is not.
constexpr const char* no_value = "–";

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
  return quantities;
}

/// Names the runs by their folders, with as much of their paths as distinguishes them.
void set_names(std::vector<TrainingRun>& runs) {
  for (TrainingRun& run : runs) {
    std::error_code unknown;
    const std::filesystem::path whole = std::filesystem::absolute(run.folder / "", unknown);
    run.name = (unknown ? run.folder / "" : whole).lexically_normal().parent_path().filename().string();
  }
  std::map<std::string, int> counts;
  for (const TrainingRun& run : runs) ++counts[run.name];
  for (TrainingRun& run : runs) {
    if (counts[run.name] > 1) run.name = run.folder.string();
  }
}

Plot plot_of(const std::vector<TrainingRun>& runs, const Quantity& quantity, bool over_seconds) {
  Plot plot{.title = fmt::format("{} over {}", quantity.title, over_seconds ? "time" : "steps"),
            .caption = quantity.caption,
            .x = {.title = over_seconds ? "training time [s]" : "training step"},
            .y = quantity.axis};
  std::set<std::string> tasks;
  for (const TrainingRun& run : runs) {
    PlotSeries& line = plot.series.emplace_back(PlotSeries{.name = run.name});
    for (const MetricsRow& row : run.rows) {
      if (const std::optional<double> y = quantity.value(row))
        line.points.push_back({over_seconds ? row.seconds : static_cast<double>(row.step), *y});
    }
    if (quantity.has_guesser && run.baseline && tasks.insert(run.task).second)
      plot.levels.push_back({fmt::format("a guesser ({})", run.task), *run.baseline});
  }
  return plot;
}

std::string time_text(double seconds) {
  // A damaged file may have so many seconds that the hours would overflow.
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : duration(seconds);
}

/// "0.125, 98.50 % right": loss and metrics.
std::string evaluation_text(const Evaluation& evaluation) {
  return short_number(evaluation.loss) + metrics_text(evaluation);
}

HtmlTable table_of(const std::vector<TrainingRun>& runs) {
  HtmlTable table{.caption = "The runs; best and final are loss and metrics on validation data",
                  .columns = {"run", "task", "cell", "state", "N", "L", "parameters", "steps", "time",
                              "guesser", "best", "at step", "final"},
                  .naming_columns = 4};
  for (const TrainingRun& run : runs) {
    const MetricsRow *best = run.best_evaluation(), *last = run.last_evaluation();
    const std::int64_t step = run.rows.empty() ? 0 : run.rows.back().step;
    table.rows.push_back(
        {run.name, run.task, run.cell,
         run.solved          ? "solved"
         : step >= run.steps ? "complete"
                             : "not at its end",
         std::to_string(run.hidden), run.reflections > 0 ? std::to_string(run.reflections) : no_value,
         run.parameters ? std::to_string(*run.parameters) : no_value,
         fmt::format("{} of {}", step, run.steps),
         run.rows.empty() ? no_value : time_text(run.rows.back().seconds),
         run.baseline ? short_number(*run.baseline) : no_value,
         best ? evaluation_text(best->evaluation()) : no_value, best ? std::to_string(best->step) : no_value,
         last ? evaluation_text(last->evaluation()) : no_value});
  }
  return table;
}

/// What the runs have in results.json; no rows where there is none.
HtmlTable results_table(const std::vector<TrainingRun>& runs) {
  const bool translations =
      std::ranges::any_of(runs, [](const TrainingRun& run) { return run.results && run.bleu; });
  HtmlTable table{.caption =
                      "Loss and metrics on test data, when the training ended; best is the model of the "
                      "smallest validation loss",
                  .columns = {"run", "seed", "steps", "best at step", "best", "last"}};
  if (translations) table.columns.insert(table.columns.end(), {"BLEU", "chrF2"});
  for (const TrainingRun& run : runs) {
    if (!run.results) continue;
    const TestedModel* best = run.results->best ? &*run.results->best : nullptr;
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {run.name,
           std::to_string(run.results->seed),
           std::to_string(run.results->steps),
           best ? std::to_string(best->step) : no_value,
           best ? evaluation_text(best->evaluation) : no_value,
           evaluation_text(run.results->last.evaluation)};
    if (!translations) continue;
    for (const std::optional<double>& score : {run.bleu, run.chrf})
      row.push_back(score ? fmt::format("{:.2f}", *score) : no_value);
  }
  return table;
}

void add_test_results(HtmlPage& page, const std::vector<TrainingRun>& runs,
                      const std::vector<SeedsRun>& seeds) {
  const HtmlTable results = results_table(runs);
  if (results.rows.empty() && seeds.empty()) return;
  page.heading("Test data");
  if (!results.rows.empty()) page.table(results);
  HtmlTable spreads{.caption = "Seeds: test data of the best model of each training",
                    .columns = {"folder", "of", "mean", "standard deviation", "median"},
                    .naming_columns = 2};
  for (const SeedsRun& run : seeds) {
    for (const Spread& spread : run.spreads) {
      spreads.rows.push_back({run.folder.string(), spread.name, short_number(spread.mean),
                              short_number(spread.deviation), short_number(spread.median)});
    }
  }
  if (!spreads.rows.empty()) page.table(spreads);
}

/// How far beyond the length of the training a model is right.
void add_step_accuracies(HtmlPage& page, const std::vector<TrainingRun>& runs) {
  Plot plot{.title = "Accuracy over the steps of a sequence",
            .caption =
                "Share of right answers at each step of test sequences that are four times as long as "
                "those of the training. A name has the length of the training in brackets.",
            .x = {.title = "step of the sequence"},
            .y = {.title = "right answers [%]"}};
  for (const TrainingRun& run : runs) {
    PlotSeries& line =
        plot.series.emplace_back(PlotSeries{.name = fmt::format("{} ({})", run.name, run.trained_length)});
    for (const auto& [step, share] : run.step_accuracies)
      line.points.push_back({static_cast<double>(step), 100 * share});
  }
  if (std::ranges::all_of(runs, [](const TrainingRun& run) { return run.step_accuracies.empty(); })) return;
  page.heading(plot.title);
  page.figures({plot});
}

/// The share of the values in each of `bins` equal parts from 0 to `end`; nothing without values.
std::vector<PlotPoint> histogram_of(const std::vector<double>& values, double end, int bins) {
  std::vector<PlotPoint> points;
  for (int bin = 0; bin < bins && !values.empty(); ++bin) points.push_back({(bin + 0.5) * end / bins, 0});
  for (const double value : values) {
    const auto bin = static_cast<std::size_t>(std::clamp(value / end * bins, 0.0, bins - 1.0));
    points[bin].y += 100 / static_cast<double>(values.size());
  }
  return points;
}

/// A value that all heads have many of, of one head after the other.
std::vector<double> of_all_heads(const DeltaObservation& layer,
                                 std::vector<double> DeltaHeadObservation::*values) {
  std::vector<double> all;
  for (const DeltaHeadObservation& head : layer.heads)
    all.insert(all.end(), (head.*values).begin(), (head.*values).end());
  return all;
}

PlotSeries betas_of(const std::string& name, const DeltaObservation& layer) {
  return {.name = name,
          .points = histogram_of(of_all_heads(layer, &DeltaHeadObservation::betas), 2, 40),
          .histogram = true};
}

PlotSeries ranks_of(const std::string& name, const DeltaObservation& layer, const TrainingRun& run) {
  PlotSeries line{.name = fmt::format("{} ({})", name, run.trained_length)};
  for (std::size_t k = 0; k < layer.heads.front().ranks.size(); ++k) {
    PlotPoint& point = line.points.emplace_back(PlotPoint{static_cast<double>(run.rank_steps[k] + 1), 0});
    for (const DeltaHeadObservation& head : layer.heads) {
      const double rank = head.ranks[k];
      point.y += rank / static_cast<double>(layer.heads.size());
      point.low = std::min(point.low.value_or(rank), rank);
      point.high = std::max(point.high.value_or(rank), rank);
    }
  }
  return line;
}

PlotSeries angles_of(const std::string& name, const DeltaObservation& layer) {
  std::vector<double> degrees = of_all_heads(layer, &DeltaHeadObservation::angles);
  for (double& angle : degrees) angle = angle * 180 / std::numbers::pi;
  double real = 0;
  for (const DeltaHeadObservation& head : layer.heads) real += static_cast<double>(head.real_steps);
  const double share = real / (real + static_cast<double>(degrees.size()));
  return {.name = fmt::format("{} (real: {:.0f} %)", name, 100 * share),
          .points = histogram_of(degrees, 180, 36),
          .histogram = true};
}

/// What DeltaProduct layers do: a line for each layer of each run, all heads together.
void add_delta_products(HtmlPage& page, const std::vector<TrainingRun>& runs) {
  Plot betas{.title = "Step sizes of DeltaProduct layers",
             .caption =
                 "Share of the step sizes beta along the first test sequence, in parts of 0.05: 0 leaves "
                 "the state, 1 projects, 2 reflects.",
             .x = {.title = "beta"},
             .y = {.title = "share [%]"}};
  Plot ranks{.title = "Effective rank over the steps of a sequence",
             .caption =
                 "exp of the entropy of the singular values of a state, divided by their sum: mean of the "
                 "heads, with a bar from the head with the least to the one with the most. A name has the "
                 "length of the training in brackets.",
             .x = {.title = "step of the sequence"},
             .y = {.title = "effective rank"}};
  Plot angles{.title = "Angles by which steps turn",
              .caption =
                  "Of layers with two factors a step: the angle of the complex eigenvalues of their "
                  "product, in parts of 5 degrees. Brackets have the share of steps whose eigenvalues are "
                  "real, which turn nothing and are left out.",
              .x = {.title = "angle [degrees]"},
              .y = {.title = "share [%]"}};
  bool has_angles = false;
  for (const TrainingRun& run : runs) {
    for (const DeltaObservation& layer : run.delta_products) {
      const std::string name =
          run.delta_products.size() == 1 ? run.name : fmt::format("{}, {}", run.name, layer.layer);
      betas.series.push_back(betas_of(name, layer));
      ranks.series.push_back(ranks_of(name, layer, run));
      // A layer without angles has its number too: a line has the same colour in all plots.
      angles.series.push_back(layer.has_angles ? angles_of(name, layer) : PlotSeries{.name = name});
      has_angles = has_angles || layer.has_angles;
    }
  }
  if (betas.series.empty()) return;
  page.heading("DeltaProduct layers");
  page.figures({betas, ranks});
  if (has_angles) page.figures({angles});
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
  HtmlPage page(runs.size() == 1 ? fmt::format("Training run {}", runs[0].name)
                                 : fmt::format("{} training runs", runs.size()));
  page.table(table_of(runs));
  for (const TrainingRun& run : runs) {
    for (const std::string& note : run.notes) page.paragraph(fmt::format("{}: {}.", run.name, note));
  }
  add_test_results(page, runs, seeds);
  if (std::ranges::any_of(runs, [](const TrainingRun& run) { return run.rows.size() > most_plot_points; })) {
    page.paragraph(fmt::format(
        "Lines of more than {} points show every second of them, every third and so on.", most_plot_points));
  }
  for (const Quantity& quantity : quantities_of(runs)) {
    page.heading(quantity.title);
    page.figures({plot_of(runs, quantity, false), plot_of(runs, quantity, true)});
  }
  add_step_accuracies(page, runs);
  add_delta_products(page, runs);
  add_attention(page, runs);
  return page.str();
}

}  // namespace orthornn::program
