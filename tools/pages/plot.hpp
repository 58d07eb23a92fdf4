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

/// One line.
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points = {};
  /// 0, 1 ..: colour, dashes and mark of that number. Below 0: a grey line to compare with.
  int style = 0;
  /// Drawn as steps, each of them around its point, and without marks.
  bool histogram = false;
};

struct PlotAxis {
  std::string title;
  /// If false, the axis goes from 0 to a little above the largest value.
  bool logarithmic = false;
  /// Positions of the numbers of a logarithmic axis; empty for round numbers.
  std::vector<double> ticks = {};
};

struct Plot {
  /// Title of the figure, in one line; screen readers read it for the plot.
  std::string title;
  /// Caption: what the plot shows and how it was measured.
  std::string caption;
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series = {};
};

/// The drawable part of a plot: finite numbers within the range of a double, positive ones on logarithmic
/// axes, and bars with such ends. Lines without points are removed.
std::vector<PlotSeries> drawable_series(const Plot& plot);

/// The plot as a <figure> element with its title, legend and caption, drawn by gnuplot; with a note if there
/// is nothing to draw. `drawn` counts the plots of the page: the first has the marks to which all refer. The
/// colours are the page's variables --colour-0 ... A line shows its name under the pointer. Throws Error.
std::string figure(const Plot& plot, int& drawn);

}  // namespace orthornn::program
