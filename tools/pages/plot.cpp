#include "pages/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// gnuplot has no CSS variables. It draws in these colours, which are replaced by CSS variables afterwards.
constexpr int axis_colour = 1, text_colour = 2, grid_colour = 3, neutral_colour = 4, first_series_colour = 10;

std::string stand_in(int colour) { return fmt::format("rgb \"#{:06x}\"", colour); }

int colour_of(const PlotSeries& series) {
  return series.colour == PlotSeries::neutral ? neutral_colour : first_series_colour + series.colour;
}

std::string css_colour(int colour) {
  switch (colour) {
    case axis_colour:
      return "var(--axis)";
    case text_colour:
      return "var(--text)";
    case grid_colour:
      return "var(--grid)";
    case neutral_colour:
      return "var(--neutral)";
    default:
      return fmt::format("var(--series-{})", colour - first_series_colour);
  }
}

/// A dash pattern for gnuplot and for SVG, and a mark for both.
struct Dash {
  const char* gnuplot;
  const char* svg;
};
constexpr Dash dashes[plot_dashes] = {
    {"solid", "none"}, {"(8, 4)", "8 4"}, {"(2, 3)", "2 3"}, {"(9, 3, 2, 3)", "9 3 2 3"}};
struct Mark {
  int gnuplot;
  const char* svg;
};
constexpr Mark marks[plot_marks] = {{7, "<circle cx=\"18\" cy=\"7\" r=\"3.6\"/>"},
                                    {5, "<rect x=\"14.6\" y=\"3.6\" width=\"6.8\" height=\"6.8\"/>"},
                                    {9, "<path d=\"M18 2.4 L22.2 9.6 L13.8 9.6 z\"/>"},
                                    {13, "<path d=\"M18 2.2 L22.6 7 L18 11.8 L13.4 7 z\"/>"},
                                    {11, "<path d=\"M18 11.6 L22.2 4.4 L13.8 4.4 z\"/>"}};

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
    const double room = std::max(1.15, std::pow(values.high / values.low, 0.05));
    return {values.low / room, values.high * room};
  }
  return {std::min(0.0, values.low), values.high > 0 ? values.high * 1.03 : 1};
}

/// Round numbers within a logarithmic range: one for every few decades, or several for each decade if there
/// are few.
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
    if (numbers.size() >= 3) break;
  }
  return numbers;
}

/// As gnuplot's enhanced text.
std::string tick_text(double number) {
  if (number >= 1e-3 && number < 1e4) return fmt::format("{:.4g}", number);
  const double exponent = std::floor(std::log10(number) + 1e-9);
  const double factor = number / std::pow(10.0, exponent);
  const std::string power = fmt::format("10^{{{}}}", exponent);
  return std::abs(factor - 1) < 1e-6 ? power : fmt::format("{:.2g}·{}", factor, power);
}

std::string axis_script(char name, const PlotAxis& axis, const Range& values) {
  const Range range = roomy(axis, values);
  std::string script = fmt::format("set {0}label \"{1}\" textcolor {2}\nset {0}range [{3}:{4}]\n", name,
                                   axis.title, stand_in(text_colour), range.low, range.high);
  if (axis.logarithmic) script += fmt::format("set logscale {}\n", name);
  std::vector<double> ticks = axis.ticks;
  if (ticks.empty() && axis.logarithmic) ticks = round_numbers(range);
  if (ticks.empty()) return script;
  std::vector<std::string> texts;
  const auto place = [&](double value) {
    return axis.logarithmic ? std::log(value / range.low) / std::log(range.high / range.low)
                            : (value - range.low) / (range.high - range.low);
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
std::string script_of(const Plot& plot, const std::vector<PlotSeries>& series) {
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
    const bool marked = series[i].colour != PlotSeries::neutral;
    lines += fmt::format("{}$series{} using {} with {} linecolor {} linewidth {} dashtype {}",
                         i == 0 ? "plot " : ", ", i, bars ? "1:2:3:4" : "1:2",
                         !marked ? "lines"
                         : bars  ? "yerrorlines"
                                 : "linespoints",
                         stand_in(colour_of(series[i])), line_width, dashes[series[i].dash].gnuplot);
    if (marked) lines += fmt::format(" pointtype {} pointsize 0.7", marks[series[i].mark].gnuplot);
    if (marked && series[i].points.size() > most_marked_points) {
      lines += fmt::format(" pointnumber {}", marks_of_long_lines);
    }
    lines += fmt::format(" title \"{}\"", i);
  }
  return fmt::format(
             "set terminal svg size {}, {} enhanced font \"sans-serif,14\"\n"
             "set encoding utf8\nunset key\nset errorbars small\n"
             "set border 3 linecolor {} \nset tics nomirror scale 0.5 textcolor {}\n"
             "set format \"%g\"\nset grid linetype 1 linecolor {} linewidth 1\n",
             width, height, stand_in(axis_colour), stand_in(text_colour), stand_in(grid_colour)) +
         axis_script('x', plot.x, x) + axis_script('y', plot.y, y) + data + lines + "\n";
}

/// `text` with each match replaced by `replacement(match)`.
template <class Replacement>
std::string replace_each(const std::string& text, const std::regex& pattern, const Replacement& replacement) {
  std::string result;
  auto last = text.cbegin();
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    result.append(last, (*match)[0].first);
    result += replacement(*match);
    last = (*match)[0].second;
  }
  return result.append(last, text.cend());
}

/// The SVG without the parts that only a separate file needs, and with ids that are unique in the page.
std::string adapt(const std::string& svg, const Plot& plot, const std::vector<PlotSeries>& series,
                  const std::string& id) {
  static const std::regex empty_group(R"(<g [^>]*>\s*</g>\s*)");
  static const std::regex colour(R"(rgb\( *0, *0, *(\d+)\))");
  static const std::regex identity(R"(( id=['"])|(xlink:href='#))");
  static const std::regex name(R"(<title>(\d+)</title>)");
  const std::size_t content = svg.find("<g id=\"gnuplot_canvas\">");
  if (content == std::string::npos || svg.find("</svg>", content) == std::string::npos) {
    throw Error("gnuplot gave something else than an SVG image");
  }
  std::string result = svg.substr(content);
  // Backgrounds of texts, which these plots do not have.
  for (std::size_t filter; (filter = result.find("<filter")) != std::string::npos;) {
    result.erase(filter, result.find("</filter>", filter) + 9 - filter);
  }
  result = std::regex_replace(result, empty_group, "");
  result = replace_each(result, colour, [](const auto& match) { return css_colour(std::stoi(match[1])); });
  result = replace_each(result, identity, [&](const auto& match) {
    return match[1].matched ? match[1].str() + id + "-" : "href='#" + id + "-";
  });
  result = replace_each(result, name, [&](const auto& match) {
    return fmt::format("<title>{}</title>", html_text(series.at(std::stoul(match[1])).name));
  });
  return fmt::format("<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}", width,
                     height, html_text(plot.title), result);
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

std::string draw(const Plot& plot, const std::string& id) {
  const std::vector<PlotSeries> series = drawable_series(plot);
  return adapt(run_gnuplot(script_of(plot, series)), plot, series, id);
}

std::string legend_sample(const PlotSeries& series) {
  const std::string colour = css_colour(colour_of(series));
  return fmt::format(
      "<svg class=\"sample\" viewBox=\"0 0 36 14\" aria-hidden=\"true\"><line x1=\"0\" y1=\"7\" x2=\"36\" "
      "y2=\"7\" stroke=\"{0}\" stroke-width=\"2\" stroke-dasharray=\"{1}\"/>{2}</svg>",
      colour, dashes[series.dash].svg,
      series.colour == PlotSeries::neutral
          ? ""
          : fmt::format("<g fill=\"{}\">{}</g>", colour, marks[series.mark].svg));
}

}  // namespace orthornn::program
