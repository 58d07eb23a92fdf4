#include "pages/layer_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <string>

namespace orthornn::program {
namespace {

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
          .form = PlotForm::histogram};
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
          .form = PlotForm::histogram};
}

/// The name of a layer of a run, which stands for it where it has no other.
std::string line_name(const std::string& run, const std::string& layer, std::size_t layers) {
  return layers == 1 ? run : fmt::format("{}, {}", run, layer);
}

}  // namespace

void add_eigenvalue_angles(HtmlPage& page, const std::vector<RunGroup>& groups) {
  Plot plot{
      .title = "Angles of the eigenvalues of Q",
      .caption =
          "Share of the eigenvalues of each orthogonal Q of the best model, in parts of 10 degrees. An "
          "eigenvalue of 1 has the angle 0 and keeps what it multiplies; one of −1 has the angle 180. A "
          "conjugate pair turns a plane, and both have the angle of that turn.",
      .x = {.title = "angle [degrees]"},
      .y = {.title = "share [%]"}};
  for (const RunGroup& group : groups) {
    const std::size_t layers = group.first().eigenvalue_angles.size();
    for (std::size_t i = 0; i < layers; ++i) {
      std::vector<double> degrees;
      for (const TrainingRun* run : group.runs) {
        if (i >= run->eigenvalue_angles.size()) continue;
        const std::vector<double>& own = run->eigenvalue_angles[i];
        degrees.insert(degrees.end(), own.begin(), own.end());
      }
      plot.series.push_back({.name = line_name(group.name, fmt::format("layer {}", i + 1), layers),
                             .points = histogram_of(degrees, 180, 18),
                             .form = PlotForm::histogram});
    }
  }
  if (plot.series.empty()) return;
  page.heading("Orthogonal layers");
  page.figures({plot});
}

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
      const std::string name = line_name(run.name, layer.layer, run.delta_products.size());
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

}  // namespace orthornn::program
