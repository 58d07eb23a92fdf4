#pragma once

#include <cstddef>
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

/// How a series is drawn.
enum class PlotForm {
  line,       ///< From point to point, with bars from `low` to `high`.
  band,       ///< From point to point, with an area from `low` to `high` around the line.
  histogram,  ///< As steps, each of them around its point, and without marks.
  dots        ///< As marks alone.
};

/// One series of points, with one name in the legend.
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points = {};
  /// 0, 1 ..: colour, dashes and mark of that number; nullopt: the number of the series in the plot.
  std::optional<int> style = std::nullopt;
  PlotForm form = PlotForm::line;
};

/// A grey level line to compare with.
struct PlotLevel {
  std::string name;
  double y;
};

struct PlotAxis {
  std::string title;
  bool logarithmic = false;
  /// Whether a linear axis goes from 0 to a little above the largest value; else it surrounds the values.
  bool from_zero = true;
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
  /// Across the whole plot, where a series is drawn.
  std::vector<PlotLevel> levels = {};
};

/// The most points of a line: more points would not be visible. Of longer lines every second point is drawn,
/// every third and so on, and the last.
inline constexpr std::size_t most_plot_points = 500;

/// The plot as a <figure> element with its title, an SVG image, a legend and the caption; with a note if
/// there is nothing to draw. The colours are the page's variables --colour-0 ... Attributes hold the numbers
/// that are drawn, by which the script of the page draws the image anew: page.js knows this form.
std::string figure(const Plot& plot);

}  // namespace orthornn::program
