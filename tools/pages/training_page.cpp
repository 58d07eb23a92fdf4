#include "pages/training_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <set>

#include "pages/html_page.hpp"
#include "pages/metrics_text.hpp"
#include "pages/number_text.hpp"

namespace orthornn::program {
namespace {

/// The most points of a line: more points would not be visible.
constexpr std::size_t most_points = 500;

/// A column of metrics.csv.
struct Quantity {
  std::string title;
  std::string axis;
  bool logarithmic;
  bool baseline;
  std::function<std::optional<double>(const TrainingRun&, const MetricsRow&)> value;
  std::string caption;
};

/// "Validation sequence accuracy", over validation data.
Quantity quantity_of(const Metric& metric) {
  std::string words = metric.name;
  std::ranges::replace(words, '_', ' ');
  const auto value = [name = metric.name, unit = metric.is_share ? 100 : 1](
                         const TrainingRun& run, const MetricsRow& row) -> std::optional<double> {
    const auto found = std::ranges::find(run.metrics, name, &Metric::name);
    const auto place = static_cast<std::size_t>(found - run.metrics.begin());
    if (place >= row.metrics.size()) return std::nullopt;
    const std::optional<double> number = row.metrics[place];
    return number ? std::optional(unit * *number) : std::nullopt;
  };
  return {"Validation " + words,
          metric.title + (metric.is_share ? " [%]" : ""),
          false,
          false,
          value,
          "On validation data, for tasks that have this metric."};
}

/// What is drawn of these runs.
std::vector<Quantity> quantities_of(const std::vector<TrainingRun>& runs) {
  using Row = MetricsRow;
  std::vector<Quantity> quantities = {
      {"Training loss", "loss", true, true, [](const TrainingRun&, const Row& row) { return row.loss; },
       "Of the batch at each logged step. A guesser does not look at the input."},
      {"Validation loss", "loss", true, true,
       [](const TrainingRun&, const Row& row) { return row.evaluation_loss; },
       "On validation data. A guesser does not look at the input."}};
  std::set<std::string> seen;
  for (const TrainingRun& run : runs) {
    for (const Metric& metric : run.metrics) {
      if (seen.insert(metric.name).second) quantities.push_back(quantity_of(metric));
    }
  }
  quantities.push_back(
      {"Orthogonality error", "largest entry of |I − AᵀA|", true, false,
       [](const TrainingRun&, const Row& row) { return row.orthogonality_error; },
       "How far the matrix A, by which the recurrence multiplies, is from orthogonal. Rounding alone leaves "
       "about 1e-7 in fp32, and more in tf32 and bf16. An error of exactly 0 has no place on a logarithmic "
       "axis."});
  quantities.push_back({"Learning rate", "learning rate", false, false,
                        [](const TrainingRun&, const Row& row) { return row.learning_rate; },
                        "Of the parameters that are not orthogonal."});
  return quantities;
}

/// Names of the folders, with as much of their paths as distinguishes them.
std::vector<std::string> names_of(const std::vector<TrainingRun>& runs) {
  std::vector<std::string> names;
  const auto name = [](const TrainingRun& run) {
    std::error_code unknown;
    const std::filesystem::path whole = std::filesystem::absolute(run.folder / "", unknown);
    return (unknown ? run.folder / "" : whole).lexically_normal().parent_path().filename().string();
  };
  for (const TrainingRun& run : runs) {
    const bool alone = std::count_if(runs.begin(), runs.end(),
                                     [&](const TrainingRun& r) { return name(r) == name(run); }) == 1;
    names.push_back(alone ? name(run) : run.folder.string());
  }
  return names;
}

/// Every k-th point, so that most_points remain at most, and the last.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
  const std::size_t every = (points.size() + most_points - 1) / most_points;
  if (every <= 1) return points;
  std::vector<PlotPoint> kept;
  for (std::size_t i = 0; i < points.size(); i += every) kept.push_back(points[i]);
  if ((points.size() - 1) % every != 0) kept.back() = points.back();
  return kept;
}

/// Of the rows that have a value.
std::vector<PlotPoint> points_of(const TrainingRun& run, const Quantity& quantity, bool over_seconds) {
  std::vector<PlotPoint> points;
  for (const MetricsRow& row : run.rows) {
    if (const std::optional<double> y = quantity.value(run, row))
      points.push_back({over_seconds ? row.seconds : static_cast<double>(row.step), *y});
  }
  return thinned(points);
}

Plot plot_of(const std::vector<TrainingRun>& runs, const std::vector<std::string>& names,
             const Quantity& quantity, bool over_seconds) {
  Plot plot{.title = fmt::format("{} over {}", quantity.title, over_seconds ? "time" : "steps"),
            .caption = quantity.caption,
            .x = {.title = over_seconds ? "training time [s]" : "training step"},
            .y = {.title = quantity.axis, .logarithmic = quantity.logarithmic}};
  double end = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    plot.series.push_back({.name = names[i],
                           .points = points_of(runs[i], quantity, over_seconds),
                           .style = static_cast<int>(i)});
    if (!plot.series.back().points.empty()) end = std::max(end, plot.series.back().points.back().x);
  }
  if (!quantity.baseline || drawable_series(plot).empty()) return plot;
  std::set<std::string> tasks;
  for (const TrainingRun& run : runs) {
    if (!run.baseline || !tasks.insert(run.task).second) continue;
    plot.series.push_back({.name = fmt::format("a guesser ({})", run.task),
                           .points = {{0, *run.baseline}, {end, *run.baseline}},
                           .style = -static_cast<int>(tasks.size())});
  }
  return plot;
}

/// "0.125, 98.50 % right": loss and metrics.
std::string evaluation_text(const std::optional<Evaluation>& evaluation) {
  return evaluation ? short_number(evaluation->loss) + metrics_text(*evaluation) : "–";
}

std::string time_text(double seconds) {
  // A damaged file may have so many seconds that the hours would overflow.
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  return seconds < 60 ? fmt::format("{:.1f} s", seconds) : duration(seconds);
}

HtmlTable table_of(const std::vector<TrainingRun>& runs, const std::vector<std::string>& names) {
  const auto evaluation = [](const TrainingRun& run, const MetricsRow* row) {
    return row == nullptr ? std::nullopt : std::optional(run.evaluation(*row));
  };
  HtmlTable table{.caption = "The runs; best and final are loss and metrics on validation data",
                  .columns = {"run", "task", "cell", "state", "N", "L", "parameters", "steps", "time",
                              "guesser", "best", "at step", "final"},
                  .naming_columns = 4};
  const auto optional = [](auto value, bool there) { return there ? fmt::format("{}", value) : "–"; };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TrainingRun& run = runs[i];
    const std::int64_t step = run.rows.empty() ? 0 : run.rows.back().step;
    const MetricsRow* best = run.best_evaluation();
    table.rows.push_back({names[i], run.task, run.cell,
                          run.solved          ? "solved"
                          : step >= run.steps ? "complete"
                                              : "not at its end",
                          fmt::format("{}", run.hidden), optional(run.reflections, run.reflections > 0),
                          optional(run.parameters.value_or(0), run.parameters.has_value()),
                          fmt::format("{} of {}", step, run.steps),
                          run.rows.empty() ? "–" : time_text(run.rows.back().seconds),
                          run.baseline ? short_number(*run.baseline) : "–",
                          evaluation_text(evaluation(run, best)),
                          optional(best == nullptr ? 0 : best->step, best != nullptr),
                          evaluation_text(evaluation(run, run.last_evaluation()))});
  }
  return table;
}

/// What the runs have in results.json.
void add_test_results(HtmlPage& page, const std::vector<TrainingRun>& runs,
                      const std::vector<std::string>& names, const std::vector<SeedsRun>& seeds) {
  const bool translations = std::ranges::any_of(
      runs, [](const TrainingRun& run) { return run.results && run.results->bleu.has_value(); });
  HtmlTable table{.caption =
                      "Loss and metrics on test data, when the training ended; best is the model of the "
                      "smallest validation loss",
                  .columns = {"run", "seed", "steps", "best at step", "best", "last"}};
  if (translations) table.columns.insert(table.columns.end(), {"BLEU", "chrF2"});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].results) continue;
    const TestResults& results = *runs[i].results;
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {names[i],
           fmt::format("{}", results.seed),
           fmt::format("{}", results.steps),
           results.best ? fmt::format("{}", results.best->step) : "–",
           evaluation_text(results.best ? std::optional(results.best->evaluation) : std::nullopt),
           evaluation_text(results.last.evaluation)};
    if (!translations) continue;
    for (const std::optional<double>& score : {results.bleu, results.chrf})
      row.push_back(score ? fmt::format("{:.2f}", *score) : "–");
  }
  if (table.rows.empty() && seeds.empty()) return;
  page.heading("Test data");
  if (!table.rows.empty()) page.table(table);
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
void add_step_accuracies(HtmlPage& page, const std::vector<TrainingRun>& runs,
                         const std::vector<std::string>& names) {
  Plot plot{.title = "Accuracy over the steps of a sequence",
            .caption =
                "Share of right answers at each step of test sequences that are four times as long as "
                "those of the training. A name has the length of the training in brackets.",
            .x = {.title = "step of the sequence"},
            .y = {.title = "right answers [%]"}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].step_accuracies.empty()) continue;
    std::vector<PlotPoint> points;
    for (const auto& [step, share] : runs[i].step_accuracies)
      points.push_back({static_cast<double>(step), 100 * share});
    plot.series.push_back({.name = fmt::format("{} ({})", names[i], runs[i].trained_length),
                           .points = thinned(points),
                           .style = static_cast<int>(i)});
  }
  if (plot.series.empty()) return;
  page.heading(plot.title);
  page.figures({plot});
}

/// The share of the values in each of `bins` equal parts from 0 to `end`.
std::vector<PlotPoint> histogram_of(const std::vector<double>& values, double end, int bins) {
  std::vector<PlotPoint> points;
  for (int bin = 0; bin < bins; ++bin) points.push_back({(bin + 0.5) * end / bins, 0});
  for (const double value : values) {
    const auto bin = static_cast<std::size_t>(std::clamp(value / end * bins, 0.0, bins - 1.0));
    points[bin].y += 100 / static_cast<double>(values.size());
  }
  return points;
}

/// What DeltaProduct layers do: a line for each layer of each run, all heads together.
void add_delta_products(HtmlPage& page, const std::vector<TrainingRun>& runs,
                        const std::vector<std::string>& names) {
  constexpr int beta_bins = 40, angle_bins = 36;
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
  int style = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const DeltaObservation& layer : runs[i].delta_products) {
      const std::string name =
          runs[i].delta_products.size() == 1 ? names[i] : fmt::format("{}, {}", names[i], layer.layer);
      std::vector<double> all_betas, degrees;
      double real = 0;
      for (const DeltaHeadObservation& head : layer.heads) {
        all_betas.insert(all_betas.end(), head.betas.begin(), head.betas.end());
        for (const double angle : head.angles) degrees.push_back(angle * 180 / std::numbers::pi);
        real += static_cast<double>(head.real_steps);
      }
      betas.series.push_back(
          {.name = name, .points = histogram_of(all_betas, 2, beta_bins), .style = style, .histogram = true});
      std::vector<PlotPoint> points;
      for (std::size_t k = 0; k < layer.heads.front().ranks.size(); ++k) {
        PlotPoint point{.x = static_cast<double>(runs[i].rank_steps[k] + 1), .y = 0};
        for (const DeltaHeadObservation& head : layer.heads) {
          const double rank = head.ranks[k];
          point.y += rank / static_cast<double>(layer.heads.size());
          point.low = std::min(point.low.value_or(rank), rank);
          point.high = std::max(point.high.value_or(rank), rank);
        }
        points.push_back(point);
      }
      ranks.series.push_back(
          {.name = fmt::format("{} ({})", name, runs[i].trained_length), .points = points, .style = style});
      if (layer.has_angles) {
        const double share = real / (real + static_cast<double>(degrees.size()));
        angles.series.push_back(
            {.name = fmt::format("{} (real: {:.0f} %)", name, 100 * share),
             .points = degrees.empty() ? std::vector<PlotPoint>() : histogram_of(degrees, 180, angle_bins),
             .style = style,
             .histogram = true});
      }
      ++style;
    }
  }
  if (betas.series.empty()) return;
  page.heading("DeltaProduct layers");
  page.figures({betas, ranks});
  if (!angles.series.empty()) page.figures({angles});
}

/// The heat maps of one sentence beside each other, run by run.
void add_attention(HtmlPage& page, const std::vector<TrainingRun>& runs,
                   const std::vector<std::string>& names) {
  std::vector<const AttentionMap*> sentences;
  for (const TrainingRun& run : runs) {
    for (const AttentionMap& map : run.attention) {
      if (std::none_of(sentences.begin(), sentences.end(),
                       [&](const AttentionMap* other) { return other->source == map.source; }))
        sentences.push_back(&map);
    }
  }
  if (sentences.empty()) return;
  page.heading("Attention");
  page.paragraph(
      "Each row is a token of the translation, each column a token of the sentence. The stronger the colour "
      "of a "
      "cell, the more the token of the row attends to the token of the column; the weights of a row sum to "
      "1. "
      "</s> is the end of a sentence. The pointer shows the weight.");
  for (const AttentionMap* sentence : sentences) {
    page.subheading(sentence->source);
    if (!sentence->reference.empty()) page.paragraph(fmt::format("Reference: {}", sentence->reference));
    std::vector<HtmlMap> maps;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (const AttentionMap& map : runs[i].attention) {
        if (map.source != sentence->source) continue;
        maps.push_back({.title = names[i],
                        .caption = fmt::format("Translation: {}", map.translation),
                        .rows = map.target_tokens,
                        .columns = map.source_tokens,
                        .weights = map.weights});
      }
    }
    page.maps(maps);
  }
}

}  // namespace

std::string training_page(const std::vector<TrainingRun>& runs, const std::vector<SeedsRun>& seeds) {
  const std::vector<std::string> names = names_of(runs);
  HtmlPage page(runs.size() == 1 ? fmt::format("Training run {}", names[0])
                                 : fmt::format("{} training runs", runs.size()));
  page.table(table_of(runs, names));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& note : runs[i].notes) page.paragraph(fmt::format("{}: {}.", names[i], note));
  }
  add_test_results(page, runs, names, seeds);
  if (std::any_of(runs.begin(), runs.end(),
                  [](const TrainingRun& run) { return run.rows.size() > most_points; })) {
    page.paragraph(fmt::format(
        "Lines of more than {} points show every second of them, every third and so on.", most_points));
  }
  for (const Quantity& quantity : quantities_of(runs)) {
    page.heading(quantity.title);
    page.figures({plot_of(runs, names, quantity, false), plot_of(runs, names, quantity, true)});
  }
  add_step_accuracies(page, runs, names);
  add_delta_products(page, runs, names);
  add_attention(page, runs, names);
  return page.str();
}

}  // namespace orthornn::program
