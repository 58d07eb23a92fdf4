#pragma once

#include <optional>
#include <string>
#include <vector>

namespace orthornn::program {

struct PlotPoint {
  double x;
  double y;
  /// The smallest and the largest sample; nullopt draws no bar.
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
};

/// One line. `colour` 0 .. plot_colours - 1, or neutral for a line to compare with; `dash` and `mark`
/// distinguish lines of one colour.
struct PlotSeries {
  static constexpr int neutral = -1;

  std::string name;
  std::vector<PlotPoint> points;
  int colour = 0;
  int dash = 0;
  int mark = 0;
};
inline constexpr int plot_colours = 8;
inline constexpr int plot_dashes = 4;
inline constexpr int plot_marks = 5;

struct PlotAxis {
  std::string title;
  /// If false, the axis goes from 0 to a little above the largest value.
  bool logarithmic = false;
  /// Positions of the numbers; empty for round numbers.
  std::vector<double> ticks = {};
};

struct Plot {
  /// Title of the figure, in one line; screen readers read it for the plot.
  std::string title;
  /// Caption: what the plot shows and how it was measured.
  std::string caption;
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series;
};

/// The drawable part of a plot: finite numbers within the range of a double, positive ones on logarithmic
/// axes, and bars with such ends. Lines without points are removed.
std::vector<PlotSeries> drawable_series(const Plot& plot);

/// The plot as an <svg> element for an HTML page, drawn by gnuplot. Its colours are the page's variables
/// --text, --axis, --grid, --neutral and --series-0 ...; its ids begin with `id`. A line shows its name under
/// the pointer; there is no legend. The plot must have something to draw. Throws Error.
std::string draw(const Plot& plot, const std::string& id);

/// The sample of a line with its mark for a legend; an <svg> element.
std::string legend_sample(const PlotSeries& series);

}  // namespace orthornn::program
