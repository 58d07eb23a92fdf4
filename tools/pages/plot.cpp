#include "pages/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <regex>

#include "orthornn/core/error.hpp"
#include "pages/gnuplot.hpp"
#include "pages/html_text.hpp"

namespace orthornn::program {
namespace {

constexpr int width = 640, height = 400;  // units of the SVG, which the page scales
constexpr int line_width = 2;
/// The smallest distance between numbers at an axis, as a share of its length. Closer numbers are left out.
constexpr double least_tick_distance = 0.055;
/// Larger numbers are not drawn, nor numbers below its reciprocal on logarithmic axes: their ratios and the
/// room around them would overflow a double.
constexpr double largest_drawn = 1e100;
/// Lines with more points than this have only a few marks: many marks would hide the line.
constexpr std::size_t most_marked_points = 30;
constexpr int marks_of_long_lines = 10;

// gnuplot has no CSS variables. It draws in the colours #000000, #000001 .., which become --colour-0,
// --colour-1 ..: axis, text, grid and grey lines, then the lines of a plot.
constexpr int axis_colour = 0, text_colour = 1, grid_colour = 2, grey = 3, first_colour = 4, colours = 8;

std::string stand_in(int colour) { return fmt::format("rgb \"#{:06x}\"", colour); }

bool is_marked(const PlotSeries& series) { return series.style >= 0 && !series.histogram; }

int colour_of(const PlotSeries& series) {
  return series.style < 0 ? grey : first_colour + series.style % colours;
}

/// A dash pattern for gnuplot and for SVG.
struct Dash {
  const char* gnuplot;
  const char* svg;
};
constexpr Dash dashes[] = {
    {"solid", "none"}, {"(8, 4)", "8 4"}, {"(2, 3)", "2 3"}, {"(9, 3, 2, 3)", "9 3 2 3"}};

/// Lines of one colour, and grey ones, differ in their dashes.
const Dash& dash_of(const PlotSeries& series) {
  return dashes[series.style < 0 ? 1 + (-series.style - 1) % 3 : series.style / colours % 4];
}

/// As gnuplot counts its filled marks; in its SVG the mark n is called gpPt(n - 1).
int mark_of(const PlotSeries& series) {
  constexpr int marks[] = {7, 5, 9, 13, 11};
  return marks[series.style % 5];
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Some room around the values of a logarithmic axis; a linear one begins at 0.
Range roomy(const PlotAxis& axis, Range values) {
  if (axis.logarithmic) {
    const double room = std::max(1.05, std::pow(values.high / values.low, 0.05));
    return {values.low / room, values.high * room};
  }
  return {std::min(0.0, values.low), values.high > 0 ? values.high * 1.03 : 1};
}

/// Round numbers at equal distances, three to ten of them.
std::vector<double> evenly_spaced_numbers(const Range& range) {
  const double size = range.high - range.low;
  const double decade = std::pow(10.0, std::floor(std::log10(size)));
  // At most 9 steps of a smaller size, or up to 10 of a whole decade.
  const double step = decade * (size <= 1.8 * decade ? 0.2 : size <= 4.5 * decade ? 0.5 : 1.0);
  std::vector<double> numbers;
  for (double i = std::ceil(range.low / step); i * step <= range.high; ++i) numbers.push_back(i * step);
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

/// As gnuplot's enhanced text.
std::string tick_text(double number) {
  if (number >= 1e-3 && number < 1e4) return fmt::format("{:.4g}", number);
  const double exponent = std::floor(std::log10(number) + 1e-9);
  const double factor = number / std::pow(10.0, exponent);
  const std::string power = fmt::format("10^{{{}}}", exponent);
  return std::abs(factor - 1) < 1e-6 ? power : fmt::format("{:.4g}·{}", factor, power);
}

std::string axis_script(char name, const PlotAxis& axis, const Range& values) {
  const Range range = roomy(axis, values);
  std::string script = fmt::format("set {0}label \"{1}\" textcolor {2}\nset {0}range [{3}:{4}]\n", name,
                                   axis.title, stand_in(text_colour), range.low, range.high);
  if (!axis.logarithmic) return script;
  script += fmt::format("set logscale {}\n", name);
  const std::vector<double> ticks = axis.ticks.empty() ? round_numbers(range) : axis.ticks;
  if (ticks.empty()) return script;
  std::vector<std::string> texts;
  const auto place = [&](double value) {
    return std::log(value / range.low) / std::log(range.high / range.low);
  };
  double last = -1;
  for (const double tick : ticks) {
    const bool legible = place(tick) - last > least_tick_distance;
    texts.push_back(fmt::format("\"{}\" {}", legible ? tick_text(tick) : "", tick));
    if (legible) last = place(tick);
  }
  return script + fmt::format("set {}tics ({})\n", name, fmt::join(texts, ", "));
}

/// The script contains no names, so nothing has to be quoted.
std::string script_of(const Plot& plot, const std::vector<PlotSeries>& series, int number) {
  Range x, y;
  std::string data, lines;
  for (std::size_t i = 0; i < series.size(); ++i) {
    data += fmt::format("$series{} << EOD\n", i);
    bool bars = false;
    for (const PlotPoint& point : series[i].points) {
      const double low = point.low.value_or(point.y), high = point.high.value_or(point.y);
      bars = bars || point.low || point.high;
      x.include(point.x);
      y.include(low);
      y.include(high);
      data += fmt::format("{} {} {} {}\n", point.x, point.y, low, high);
    }
    data += "EOD\n";
    const bool marked = is_marked(series[i]);
    lines += fmt::format("{}$series{} using {} with {} linecolor {} linewidth {} dashtype {}",
                         i == 0 ? "plot " : ", ", i, bars ? "1:2:3:4" : "1:2",
                         series[i].histogram ? "histeps"
                         : !marked           ? "lines"
                         : bars              ? "yerrorlines"
                                             : "linespoints",
                         stand_in(colour_of(series[i])), line_width, dash_of(series[i]).gnuplot);
    if (marked) lines += fmt::format(" pointtype {} pointsize 0.7", mark_of(series[i]));
    if (marked && series[i].points.size() > most_marked_points) {
      lines += fmt::format(" pointnumber {}", marks_of_long_lines);
    }
    lines += fmt::format(" title \"{}\"", i);
  }
  return fmt::format(
             "set terminal svg size {}, {} enhanced name \"plot_{}\" font \"sans-serif,14\"\n"
             "set encoding utf8\nunset key\nset errorbars small\n"
             "set border 3 linecolor {} \nset tics nomirror scale 0.5 textcolor {}\n"
             "set format \"%g\"\nset grid linetype 1 linecolor {} linewidth 1\n",
             width, height, number, stand_in(axis_colour), stand_in(text_colour), stand_in(grid_colour)) +
         axis_script('x', plot.x, x) + axis_script('y', plot.y, y) + data + lines + "\n";
}

/// What gnuplot drew, in the page's colours, without the marks unless this is the first plot of the page.
std::string adapt(const std::string& svg, const std::vector<PlotSeries>& series, bool first) {
  static const std::regex colour(R"(rgb\( *0, *0, *(\d+)\))"), empty_group(R"(<g [^>]*>\s*</g>\s*)");
  const std::string marks_end = "</defs>";
  const std::size_t marks = svg.find("<defs>"), content = svg.find(marks_end), end = svg.rfind("</g>");
  if (marks > content || end < content || end == std::string::npos ||
      svg.find("</svg>", end) == std::string::npos)
    throw Error("gnuplot gave something else than an SVG image");
  const std::size_t begin = first ? marks : content + marks_end.size();
  std::string result = std::regex_replace(svg.substr(begin, end - begin), empty_group, "");
  result = std::regex_replace(result, colour, "var(--colour-$1)");
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string number = fmt::format("<title>{}</title>", i);
    const std::size_t at = result.find(number);
    if (at == std::string::npos) continue;
    result.replace(at, number.size(), fmt::format("<title>{}</title>", html_text(series[i].name)));
  }
  return result;
}

/// A line of the legend: the sample of the line with its mark, and the name.
std::string legend_line(const PlotSeries& series) {
  const std::string mark =
      is_marked(series) ? fmt::format("<use href=\"#gpPt{}\" transform=\"translate(18 7) scale(3.6)\"/>",
                                      mark_of(series) - 1)
                        : "";
  return fmt::format(
      "<li><svg class=\"sample\" viewBox=\"0 0 36 14\" aria-hidden=\"true\"><g color=\"var(--colour-{})\">"
      "<line x2=\"36\" y1=\"7\" y2=\"7\" stroke=\"currentColor\" stroke-width=\"2\" "
      "stroke-dasharray=\"{}\"/>{}</g></svg>{}</li>\n",
      colour_of(series), dash_of(series).svg, mark, html_text(series.name));
}

}  // namespace

std::vector<PlotSeries> drawable_series(const Plot& plot) {
  std::vector<PlotSeries> drawable;
  const auto shown = [](const PlotAxis& axis, double value) {
    return std::abs(value) <= largest_drawn && (!axis.logarithmic || value >= 1 / largest_drawn);
  };
  const auto shown_bar = [&](const PlotPoint& p) {
    return shown(plot.y, p.low.value_or(p.y)) && shown(plot.y, p.high.value_or(p.y));
  };
  for (PlotSeries series : plot.series) {
    std::erase_if(series.points,
                  [&](const PlotPoint& p) { return !shown(plot.x, p.x) || !shown(plot.y, p.y); });
    for (PlotPoint& point : series.points) {
      if (!shown_bar(point)) point.low = point.high = std::nullopt;
    }
    if (!series.points.empty()) drawable.push_back(std::move(series));
  }
  return drawable;
}

std::string figure(const Plot& plot, int& drawn) {
  const std::vector<PlotSeries> series = drawable_series(plot);
  std::string drawing = "<p>Nothing to draw yet.</p>\n";
  if (!series.empty()) {
    const bool first = drawn++ == 0;
    drawing = fmt::format(
        "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n<ul "
        "class=\"legend\">\n",
        width, height, html_text(plot.title),
        adapt(run_gnuplot(script_of(plot, series, drawn)), series, first));
    for (const PlotSeries& line : series) drawing += legend_line(line);
    drawing += "</ul>\n";
  }
  return fmt::format("<figure>\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n",
                     html_text(plot.title), drawing, html_text(plot.caption));
}

}  // namespace orthornn::program
