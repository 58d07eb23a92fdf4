#pragma once

#include <optional>
#include <string>
#include <vector>

namespace orthornn::program {

struct PlotPoint {
  double x;
  double y;
  /// The least and the largest sample; nullopt draws no bar.
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
};

/// One line. `colour` 0 .. plot_colours - 1, or neutral for a line to compare with; `dash` and `mark` tell
/// lines of one colour apart.
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
  /// Else from 0 to a little above the largest value.
  bool logarithmic = false;
  /// Where to write numbers; empty: where they are round.
  std::vector<double> ticks = {};
};

struct Plot {
  /// Of the figure, in one line; screen readers have it for the plot.
  std::string title;
  /// What is to be seen and how it came about.
  std::string caption;
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series;
};

/// What can be shown: finite numbers that leave room to draw, positive ones on logarithmic axes, and bars
/// whose ends are such. Lines without any point are gone.
std::vector<PlotSeries> drawable_series(const Plot& plot);

/// The plot as an <svg> element for an HTML page, drawn by gnuplot. Its colours are the page's variables
/// --text, --axis, --grid, --neutral and --series-0 ...; its ids begin with `id`. A line says its name where
/// the pointer rests on it; there is no legend. The plot has something drawable. Throws Error.
std::string draw(const Plot& plot, const std::string& id);

/// The stretch of line with its mark that a legend shows beside a name; an <svg> element.
std::string legend_sample(const PlotSeries& series);

}  // namespace orthornn::program
