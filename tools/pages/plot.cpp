#include "pages/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "core/checked_json.hpp"
#include "pages/html_text.hpp"

namespace orthornn::program {
namespace {

// In units of the SVG, which the page scales: the whole, and the edges of the field of the plot.
constexpr int plot_width = 640, plot_height = 400;
constexpr int plot_left = 84, plot_right = 626, plot_top = 12, plot_bottom = 346;
/// The smallest distance between numbers at an axis, as a share of its length. Closer numbers are left out.
constexpr double least_tick_distance = 0.055;
/// Larger numbers are not drawn, nor numbers below its reciprocal on logarithmic axes: their ratios and the
/// room around them would overflow a double.
constexpr double largest_drawn = 1e100;
/// Lines with more points than this have only a few marks: many marks would hide the line.
constexpr std::size_t most_marked_points = 30, marks_of_long_lines = 10;

// Numbers of the page's colours: grey lines, and the first of those of series.
constexpr int grey = 3, first_colour = 4, colours = 8;
/// Lines of one colour, and grey ones, differ in their dashes.
constexpr const char* dashes[] = {"none", "8 4", "2 3", "9 3 2 3"};
/// Circle, square, triangle, diamond and triangle upside down around the place where a path is.
constexpr const char* mark_shapes[] = {"m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z", "m-3.5,-3.5h7v7h-7z",
                                       "m0,-5l4.5,8h-9z", "m0,-5l5,5l-5,5l-5,-5z", "m0,5l4.5,-8h-9z"};

/// Names of the forms for the script of the page, which a level line has none of.
constexpr const char* form_names[] = {"line", "band", "histogram", "dots"};

/// A line as it is drawn.
struct DrawnLine {
  std::string name;
  /// Those of the axes as they are.
  std::vector<PlotPoint> points;
  /// ... and those that a linear y axis has room for too.
  std::vector<PlotPoint> all_points = {};
  int colour = grey;
  const char* dash = dashes[0];
  /// "" for a line without marks.
  const char* mark = "";
  PlotForm form = PlotForm::line;
  bool is_level = false;

  /// Every how many points there is a mark.
  std::size_t mark_distance() const {
    return form != PlotForm::dots && points.size() > most_marked_points ? points.size() / marks_of_long_lines
                                                                        : 1;
  }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// An axis with the values that it has room for, from `first` to `last` in units of the SVG.
struct Scale {
  const PlotAxis& axis;
  Range range;
  int first, last;

  /// 0 at the beginning, 1 at the end.
  double share(double value) const {
    return axis.logarithmic ? std::log(value / range.low) / std::log(range.high / range.low)
                            : (value - range.low) / (range.high - range.low);
  }
  double operator()(double value) const { return first + share(value) * (last - first); }
};

/// A number at an axis, with its text as SVG.
struct Tick {
  double value;
  std::string text;
};

/// Some room around the values; a linear axis may begin at 0.
Range roomy(const PlotAxis& axis, Range values) {
  if (axis.logarithmic) {
    const double room = std::max(1.05, std::pow(values.high / values.low, 0.05));
    return {values.low / room, values.high * room};
  }
  if (axis.from_zero) return {std::min(0.0, values.low), values.high > 0 ? values.high * 1.03 : 1};
  const double size = values.high - values.low, most = std::max(std::abs(values.low), std::abs(values.high));
  // Numbers that are equal but for rounding get a range that has numbers of its own.
  const double room = size > 1e-9 * most ? 0.04 * size : most > 0 ? 0.05 * most : 1;
  return {values.low - room, values.high + room};
}

/// Round numbers at equal distances, three to ten of them.
std::vector<double> evenly_spaced_numbers(const Range& range) {
  const double size = range.high - range.low;
  const double decade = std::pow(10.0, std::floor(std::log10(size)));
  // At most 9 steps of a smaller size, or up to 10 of a whole decade.
  const double step = decade * (size <= 1.8 * decade ? 0.2 : size <= 4.5 * decade ? 0.5 : 1.0);
  std::vector<double> numbers;
  for (double i = std::ceil(range.low / step); i * step <= range.high; ++i)
    numbers.push_back(i * step + 0.0);  // no -0
  return numbers;
}

/// Round numbers within a logarithmic range: one for every few decades, several for each decade if there are
/// few, or evenly spaced ones in a part of a decade.
std::vector<double> round_numbers(const Range& range) {
  const int first = static_cast<int>(std::floor(std::log10(range.low)));
  const int last = static_cast<int>(std::ceil(std::log10(range.high)));
  const std::vector<double> within_decade[] = {{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}};
  const int step = std::max(1, (last - first) / 7);
  std::vector<double> numbers;
  for (const std::vector<double>& factors : within_decade) {
    numbers.clear();
    for (int decade = first; decade <= last; decade += step) {
      for (const double factor : factors) {
        const double number = factor * std::pow(10.0, decade);
        if (number >= range.low && number <= range.high) numbers.push_back(number);
      }
    }
    if (numbers.size() >= 3) return numbers;
  }
  return evenly_spaced_numbers(range);
}

/// "0.02", or a power of ten with its exponent raised.
std::string tick_text(double number) {
  if (number >= 1e-3 && number < 1e4) return fmt::format("{:.4g}", number);
  const double exponent = std::floor(std::log10(number) + 1e-9);
  const double factor = number / std::pow(10.0, exponent);
  const std::string power = fmt::format("10<tspan dy=\"-5\" font-size=\"10\">{}</tspan>", exponent);
  return std::abs(factor - 1) < 1e-6 ? power : fmt::format("{:.4g}·{}", factor, power);
}

/// Those that are too close to the one before have no text.
std::vector<Tick> ticks_of(const Scale& scale) {
  const bool logarithmic = scale.axis.logarithmic;
  const std::vector<double>& given = scale.axis.ticks;
  std::vector<Tick> ticks;
  double last = -1;
  for (const double value : !logarithmic    ? evenly_spaced_numbers(scale.range)
                            : given.empty() ? round_numbers(scale.range)
                                            : given) {
    const double place = scale.share(value);
    if (place < 0 || place > 1) continue;
    const bool legible = place - last > least_tick_distance;
    ticks.push_back({value, !legible ? "" : logarithmic ? tick_text(value) : fmt::format("{:g}", value)});
    if (legible) last = place;
  }
  return ticks;
}

/// Every k-th point, so that most_plot_points remain at most, and the last.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint>& points) {
  const std::size_t every = (points.size() + most_plot_points - 1) / most_plot_points;
  if (every <= 1) return points;
  std::vector<PlotPoint> kept;
  for (std::size_t i = 0; i < points.size(); i += every) kept.push_back(points[i]);
  if ((points.size() - 1) % every != 0) kept.back() = points.back();
  return kept;
}

bool has_room(const PlotAxis& axis, double value) {
  return std::abs(value) <= largest_drawn && (!axis.logarithmic || value >= 1 / largest_drawn);
}

/// Those that these axes can show: finite numbers within the range of a double, positive ones on logarithmic
/// axes, and bars with such ends.
std::vector<PlotPoint> drawable(std::vector<PlotPoint> points, const PlotAxis& x, const PlotAxis& y) {
  std::erase_if(points, [&](const PlotPoint& p) { return !has_room(x, p.x) || !has_room(y, p.y); });
  for (PlotPoint& p : points) {
    if (!has_room(y, p.low.value_or(p.y)) || !has_room(y, p.high.value_or(p.y)))
      p.low = p.high = std::nullopt;
  }
  return points;
}

/// What can be drawn of a plot. Lines without points are left out.
std::vector<DrawnLine> drawn_lines(const Plot& plot) {
  std::vector<DrawnLine> lines;
  const auto add = [&](DrawnLine line) {
    line.all_points = drawable(std::move(line.points), plot.x, {});
    line.points = drawable(line.all_points, plot.x, plot.y);
    if (!line.points.empty()) lines.push_back(std::move(line));
  };
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    const int style = series.style.value_or(static_cast<int>(i));
    add({.name = series.name,
         .points = thinned(series.points),
         .colour = first_colour + style % colours,
         .dash = dashes[style / colours % 4],
         .mark = series.form == PlotForm::histogram ? "" : mark_shapes[style % 5],
         .form = series.form});
  }
  if (lines.empty()) return lines;
  Range x;
  if (!plot.x.logarithmic && plot.x.from_zero) x.include(0);
  for (const double tick : plot.x.ticks) x.include(tick);
  for (const DrawnLine& line : lines) {
    for (const PlotPoint& point : line.points) x.include(point.x);
  }
  for (std::size_t i = 0; i < plot.levels.size(); ++i) {
    const auto& [name, y] = plot.levels[i];
    add({.name = name, .points = {{x.low, y}, {x.high, y}}, .dash = dashes[1 + i % 3], .is_level = true});
  }
  return lines;
}

/// Grid, axes and their texts.
std::string axes(const Scale& x, const Scale& y) {
  std::string grid, texts;
  const auto add_text = [&](double at_x, double at_y, const char* anchor, const std::string& text) {
    texts += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x, at_y, anchor,
                         text);
  };
  for (const auto& [value, text] : ticks_of(x)) {
    grid += fmt::format("M{:.1f},{}V{}", x(value), plot_top, plot_bottom);
    add_text(x(value), plot_bottom + 19, "middle", text);
  }
  for (const auto& [value, text] : ticks_of(y)) {
    grid += fmt::format("M{},{:.1f}H{}", plot_left, y(value), plot_right);
    add_text(plot_left - 8, y(value) + 5, "end", text);
  }
  return fmt::format(
      "<g class=\"ticks\"><path class=\"grid\" d=\"{}\"/>\n{}</g>\n<path class=\"axes\" "
      "d=\"M{},{}V{}H{}\"/>\n"
      "<text class=\"x-title\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
      "<text class=\"y-title\" transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      grid, texts, plot_left, plot_top, plot_bottom, plot_right, (plot_left + plot_right) / 2.0,
      plot_height - 10, html_text(x.axis.title), (plot_top + plot_bottom) / 2, html_text(y.axis.title));
}

/// The paths of a line.
struct LinePaths {
  std::string line, bars, area, marks;

  LinePaths(const DrawnLine& drawn, const Scale& x, const Scale& y) {
    const std::vector<PlotPoint>& points = drawn.points;
    const double half_step = points.size() > 1 ? (points[1].x - points[0].x) / 2 : 0;  // of a histogram
    for (std::size_t i = 0; i < points.size(); ++i) {
      const PlotPoint& point = points[i];
      const double at_x = x(point.x), at_y = y(point.y);
      if (drawn.form == PlotForm::histogram) {
        line += i == 0 ? fmt::format("M{:.1f},{:.1f}", x(point.x - half_step), at_y)
                       : fmt::format("V{:.1f}", at_y);
        line += fmt::format("H{:.1f}", x(point.x + half_step));
      } else if (drawn.form != PlotForm::dots) {
        line += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "M" : "L", at_x, at_y);
      }
      for (const std::optional<double>& end : {point.low, point.high}) {
        if (end && drawn.form != PlotForm::band)
          bars += fmt::format("M{:.1f},{:.1f}V{:.1f}m-3,0h6", at_x, at_y, y(*end));
      }
      if (drawn.mark[0] != 0 && i % drawn.mark_distance() == 0)
        marks += fmt::format("M{:.1f},{:.1f}{}", at_x, at_y, drawn.mark);
    }
    if (drawn.form == PlotForm::band) add_area(points, x, y);
  }

 private:
  /// Along the largest values, and back along the smallest.
  void add_area(const std::vector<PlotPoint>& points, const Scale& x, const Scale& y) {
    const auto add = [&](const PlotPoint& point, const std::optional<double>& end) {
      area += fmt::format("{}{:.1f},{:.1f}", area.empty() ? "M" : "L", x(point.x), y(end.value_or(point.y)));
    };
    for (const PlotPoint& point : points) add(point, point.high);
    for (auto point = points.rbegin(); point != points.rend(); ++point) add(*point, point->low);
    area += "Z";
  }
};

/// The numbers of points as a JSON array of [x, y] or [x, y, low, high].
std::string numbers_of(const std::vector<PlotPoint>& points) {
  std::string text;
  for (const PlotPoint& p : points) {
    text += fmt::format("{}[{:.9g},{:.9g}", text.empty() ? "" : ",", p.x, p.y);
    if (p.low || p.high) text += fmt::format(",{:.9g},{:.9g}", p.low.value_or(p.y), p.high.value_or(p.y));
    text += "]";
  }
  return "[" + text + "]";
}

/// A line shows its name under the pointer.
std::string line_in_plot(const DrawnLine& line, const Scale& x, const Scale& y) {
  const LinePaths paths(line, x, y);
  return fmt::format(
      "<g class=\"series\" color=\"var(--colour-{})\" data-form=\"{}\" data-mark=\"{}\" data-every=\"{}\" "
      "data-points=\"{}\"><title>{}</title><path class=\"band\" d=\"{}\"/>"
      "<path class=\"line\" d=\"{}\" stroke-dasharray=\"{}\"/><path class=\"bars\" d=\"{}\"/>"
      "<path class=\"mark\" d=\"{}\"/></g>\n",
      line.colour, line.is_level ? "level" : form_names[static_cast<int>(line.form)], line.mark,
      line.mark_distance(), numbers_of(line.all_points), html_text(line.name), paths.area, paths.line,
      line.dash, paths.bars, paths.marks);
}

/// What the script must know to draw the plot: its field, and the axes.
std::string axes_text(const Plot& plot) {
  const auto axis = [](const PlotAxis& of) {
    return Json{{"logarithmic", of.logarithmic}, {"fromZero", of.from_zero}, {"ticks", of.ticks}};
  };
  const Json json = {
      {"field", {plot_left, plot_right, plot_top, plot_bottom}}, {"x", axis(plot.x)}, {"y", axis(plot.y)}};
  return html_text(json_text(json, -1));
}

/// A line of the legend: a sample of the line with its mark, and the name.
std::string legend_line(const DrawnLine& line) {
  return fmt::format(
      "<li><svg class=\"sample\" viewBox=\"0 0 36 14\" aria-hidden=\"true\"><g color=\"var(--colour-{})\">"
      "<path d=\"{}\" stroke-dasharray=\"{}\"/><path class=\"mark\" d=\"M18,7{}\"/></g></svg>{}</li>\n",
      line.colour, line.form == PlotForm::dots ? "" : "M0,7H36", line.dash, line.mark, html_text(line.name));
}

}  // namespace

std::string figure(const Plot& plot) {
  const std::vector<DrawnLine> lines = drawn_lines(plot);
  if (lines.empty()) return html_figure(plot.title, "<p>Nothing to draw yet.</p>\n", plot.caption);
  Range x_values, y_values;
  for (const DrawnLine& line : lines) {
    for (const PlotPoint& point : line.points) {
      x_values.include(point.x);
      for (const double y : {point.y, point.low.value_or(point.y), point.high.value_or(point.y)})
        y_values.include(y);
    }
  }
  const Scale x{plot.x, roomy(plot.x, x_values), plot_left, plot_right},
      y{plot.y, roomy(plot.y, y_values), plot_bottom, plot_top};
  std::string drawing, legend;
  for (const DrawnLine& line : lines) {
    drawing += line_in_plot(line, x, y);
    legend += legend_line(line);
  }
  return html_figure(
      plot.title,
      fmt::format(
          "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" data-axes=\"{}\">\n{}"
          "<svg class=\"field\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"{} {} {} {}\">\n{}"
          "</svg>\n</svg>\n<ul class=\"legend\">\n{}</ul>\n",
          plot_width, plot_height, html_text(plot.title), axes_text(plot), axes(x, y), plot_left, plot_top,
          plot_right - plot_left, plot_bottom - plot_top, plot_left, plot_top, plot_right - plot_left,
          plot_bottom - plot_top, drawing, legend),
      plot.caption);
}

}  // namespace orthornn::program
