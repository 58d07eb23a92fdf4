#include "pages/comparison_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/checked_json.hpp"
#include "orthornn/core/error.hpp"
#include "pages/comparison_table.hpp"
#include "pages/html_page.hpp"
#include "pages/number_text.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* training_step = "training_step";
constexpr const char* construction = "construction";
constexpr const char* stiefel = "stiefel";

/// The median of `total` or `forward` with the least and largest sample.
std::optional<PlotPoint> measured_point(const Json* result, double x, const std::string& what) {
  if (result == nullptr || !result->contains(what + "_ms")) return std::nullopt;
  const std::vector<double> samples = result->at(what + "_samples_ms");
  if (samples.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  return PlotPoint{.x = x, .y = result->at(what + "_ms"), .low = *low, .high = *high};
}

/// Draws one comparison. A method has the same colour in all plots of a section.
class ComparisonPage {
 public:
  explicit ComparisonPage(const Json& comparison)
      : comparison_(comparison),
        settings_(comparison.at("settings")),
        training_steps_(comparison_table(comparison, training_step)),
        constructions_(comparison_table(comparison, construction)),
        stiefel_(comparison_table(comparison, stiefel)) {
    const std::vector<std::string> reflections = settings_.at("reflections");
    if (training_steps_.hidden.empty() || reflections.empty()) throw ValueError("it has no sizes");
    first_reflections_ = reflections.front();
    for (const Index n : training_steps_.hidden) sizes_.ticks.push_back(static_cast<double>(n));
  }

  std::string str() {
    HtmlPage page("Orthogonal recurrences compared");
    page.paragraph(
        "What orthogonality costs: CWY, the product of L Householder reflections as one compact matrix, "
        "against the same product taken one reflection after another, the scaled Cayley transform, the "
        "matrix exponential and an unconstrained matrix.");
    page.code(comparison_.at("command"));
    add_machine(page);
    page.heading("Training step");
    page.paragraph(fmt::format(
        "Everything a training step needs of the recurrence: prepare, forward over all steps, backward, "
        "gradient of the parameters. Batch {}, {} steps, {}, medians of {} samples after a warm-up; a star "
        "says that fewer were taken, as their {} seconds had gone.",
        integer_member(settings_, "batch"), integer_member(settings_, "length"),
        settings_.at("activation").get<std::string>(), integer_member(settings_, "samples"),
        settings_.at("limit_seconds").get<double>()));
    if (has_method(training_steps_, "cudnn-tanh")) {
      page.paragraph(
          "cuDNN's tanh RNN is what stays in reach without orthogonality: each time its fastest algorithm, "
          "and "
          "in its time the product of a small input, which the others leave out.");
    }
    page.figures({times("Time of a training step", "time [ms]", training_steps_, "total"), rates(),
                  speed_up("householder", "tiled"), speed_up("householder-rank-one", "rank-one updates"),
                  times_by_reflections()});
    page.table(table_of(training_steps_, "Time of a training step, ms", "L", "total_ms"));
    page.table(table_of(training_steps_, "Sequences · steps per second", "L", "sequence_steps_per_second"));
    page.table(speed_up_table());
    page.heading("Construction of Q");
    page.paragraph(
        "From the parameters to the entries of Q, and back from the gradient of Q to that of the parameters. "
        "This is once an optimizer step, however long the sequences are.");
    page.figures(
        {times("Construction of Q", "time [ms]", constructions_, "forward"),
         times("Construction of Q and the parameters' gradient", "time [ms]", constructions_, "total")});
    page.table(table_of(constructions_, "Construction of Q, ms", "L", "forward_ms"));
    page.table(
        table_of(constructions_, "Construction of Q and the parameters' gradient, ms", "L", "total_ms"));
    page.heading("Stiefel manifold");
    page.paragraph(
        "An optimizer step on the N × M matrices with orthonormal columns: T-CWY forms Omega from its "
        "reflection vectors and turns the gradient of Omega into theirs; Riemannian gradient descent (RGD, "
        "with canonical or Euclidean metric, QR or Cayley retraction) moves Omega itself. Products of T-CWY "
        "use all threads, factorizations of RGD one. The formula of T-CWY counts the forming of Omega. OWN "
        "was not timed: this library has no implementation of it.");
    if (has_gpu()) page.paragraph("RGD was not timed either: this library has it on the CPU alone.");
    page.figures(stiefel_times());
    page.table(stiefel_table());
    return page.str();
  }

 private:
  bool has_gpu() const { return comparison_.at("machine").contains("gpu"); }

  static bool has_method(const ComparisonTable& table, const std::string& method) {
    return std::any_of(table.rows.begin(), table.rows.end(),
                       [&](const ComparisonRow& row) { return row.method == method; });
  }

  void add_machine(HtmlPage& page) const {
    const Json& machine = comparison_.at("machine");
    page.table({.caption = "The machine",
                .columns = {"processor", "device", "threads", "compiler", "precision", "orthornn"},
                .naming_columns = 6,
                .rows = {{machine.at("processor"), machine.at("device"),
                          fmt::format("{}", integer_member(machine, "threads")), machine.at("compiler"),
                          machine.at("precision"), comparison_.at("library_version")}}});
    if (!has_gpu()) return;
    const Json& gpu = machine.at("gpu");
    page.table({.caption = "Its GPU",
                .columns = {"name", "compute capability", "multiprocessors", "clock", "memory", "CUDA",
                            "the driver's CUDA"},
                .naming_columns = 7,
                .rows = {{gpu.at("name"), gpu.at("compute_capability"),
                          fmt::format("{}", integer_member(gpu, "multiprocessors")),
                          fmt::format("{} MHz", integer_member(gpu, "clock_mhz")),
                          fmt::format("{:.2f} GB", gpu.at("memory_bytes").get<double>() * 1e-9),
                          gpu.at("cuda"), gpu.at("driver_cuda")}}});
  }

  /// A line without points yet: the n-th method of its section has the n-th colour and mark.
  static PlotSeries series_of(const ComparisonTable& table, const ComparisonRow& row) {
    std::vector<std::string> methods;
    for (const ComparisonRow& other : table.rows) {
      if (std::count(methods.begin(), methods.end(), other.method) == 0) methods.push_back(other.method);
      if (other.method == row.method) break;
    }
    const int number = static_cast<int>(methods.size()) - 1;
    return {.name = row.name, .points = {}, .colour = number % plot_colours, .mark = number % plot_marks};
  }

  static PlotSeries timed_series(const ComparisonTable& table, const ComparisonRow& row,
                                 const std::string& what) {
    PlotSeries series = series_of(table, row);
    for (std::size_t i = 0; i < table.hidden.size(); ++i) {
      if (const auto point = measured_point(row.results[i], static_cast<double>(table.hidden[i]), what))
        series.points.push_back(*point);
    }
    return series;
  }

  PlotAxis sizes(const char* title = "state size N") const {
    PlotAxis axis = sizes_;
    axis.title = title;
    axis.logarithmic = true;
    return axis;
  }

  /// Time over N by method, methods with reflections at the first L.
  Plot times(const std::string& title, const std::string& unit, const ComparisonTable& table,
             const std::string& what) const {
    Plot plot{.title = title,
              .caption = fmt::format("Over N by method, both axes logarithmic; L = {} where there are "
                                     "reflections. Points are medians, bars reach from the fastest to the "
                                     "slowest sample.",
                                     first_reflections_),
              .x = sizes(),
              .y = {.title = unit, .logarithmic = true},
              .series = {}};
    for (const ComparisonRow& row : table.rows) {
      if (!row.reflections.empty() && row.reflections != first_reflections_) continue;
      plot.series.push_back(timed_series(table, row, what));
    }
    return plot;
  }

  Plot rates() const {
    Plot plot = times("Throughput", "sequences · steps per second", training_steps_, "total");
    const double work = settings_.at("batch").get<double>() * settings_.at("length").get<double>();
    for (PlotSeries& series : plot.series) {
      for (PlotPoint& point : series.points) {
        point = {.x = point.x,
                 .y = work * 1e3 / point.y,
                 .low = work * 1e3 / *point.high,
                 .high = work * 1e3 / *point.low};
      }
    }
    return plot;
  }

  Plot speed_up(const std::string& over, const std::string& name) const {
    Plot plot{.title = fmt::format("CWY over sequential Householder, {}", name),
              .caption =
                  "How many times less a training step takes with CWY than with the same reflections one "
                  "after another, over N by L; 1 is no difference.",
              .x = sizes(),
              .y = {.title = "times faster", .logarithmic = true},
              .series = {}};
    PlotSeries one{.name = "no difference", .points = {}, .colour = PlotSeries::neutral, .dash = 2};
    for (const Index n : training_steps_.hidden) one.points.push_back({static_cast<double>(n), 1});
    for (const ComparisonRow& row : training_steps_.rows) {
      if (row.method != "cwy") continue;
      const std::size_t number = plot.series.size();
      PlotSeries series{.name = fmt::format("L = {}", row.reflections),
                        .points = {},
                        .colour = static_cast<int>(number) % plot_colours,
                        .dash = static_cast<int>(number) % plot_dashes,
                        .mark = static_cast<int>(number) % plot_marks};
      for (std::size_t i = 0; i < row.results.size(); ++i) {
        const auto factor = factor_over(over, row.results[i]);
        if (factor) series.points.push_back({static_cast<double>(training_steps_.hidden[i]), *factor});
      }
      plot.series.push_back(std::move(series));
    }
    if (!drawable_series(plot).empty()) plot.series.push_back(std::move(one));
    return plot;
  }

  std::optional<double> factor_over(const std::string& over, const Json* cwy) const {
    if (cwy == nullptr) return std::nullopt;
    for (const Json& one : comparison_.at("speed_up")) {
      if (one.at("over") == over && one.at("hidden") == cwy->at("hidden") &&
          one.at("reflections") == cwy->at("reflections")) {
        return one.at("factor").get<double>();
      }
    }
    return std::nullopt;
  }

  /// Time over L at the largest N; methods without reflections are horizontal lines.
  Plot times_by_reflections() const {
    const std::size_t last = training_steps_.hidden.size() - 1;
    Plot plot{.title = fmt::format("Time of a training step at N = {}", training_steps_.hidden[last]),
              .caption = "Over the number of reflections L. Methods that have none are level lines.",
              .x = {.title = "reflections L", .logarithmic = true},
              .y = {.title = "time [ms]", .logarithmic = true},
              .series = {}};
    std::vector<double>& counts = plot.x.ticks;
    for (const ComparisonRow& row : training_steps_.rows) {
      if (row.results[last] != nullptr && !row.reflections.empty())
        counts.push_back(row.results[last]->at("reflections"));
    }
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    for (const ComparisonRow& row : training_steps_.rows) {
      const Json* result = row.results[last];
      if (result == nullptr) continue;
      auto series = std::find_if(plot.series.begin(), plot.series.end(),
                                 [&](const PlotSeries& other) { return other.name == row.name; });
      if (series == plot.series.end()) {
        plot.series.push_back(series_of(training_steps_, row));
        series = plot.series.end() - 1;
      }
      const std::vector<double> at =
          row.reflections.empty() ? counts : std::vector<double>{result->at("reflections")};
      for (const double x : at) {
        if (const auto point = measured_point(result, x, "total")) series->points.push_back(*point);
      }
    }
    for (PlotSeries& series : plot.series) {
      std::sort(series.points.begin(), series.points.end(),
                [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
    }
    return plot;
  }

  /// One plot for each M: one plot for all would have too many lines.
  std::vector<Plot> stiefel_times() const {
    std::vector<Plot> plots;
    for (const std::string reflections : settings_.at("reflections")) {
      Plot plot{.title = fmt::format("A step on the Stiefel manifold St(N, M), M = {}", reflections),
                .caption =
                    "Over N by method, both axes logarithmic. Points are medians, bars reach from the "
                    "fastest to the slowest sample.",
                .x = sizes("rows N"),
                .y = {.title = "time [ms]", .logarithmic = true},
                .series = {}};
      for (const ComparisonRow& row : stiefel_.rows) {
        if (row.reflections == reflections) plot.series.push_back(timed_series(stiefel_, row, "total"));
      }
      plots.push_back(std::move(plot));
    }
    return plots;
  }

  HtmlTable table_of(const ComparisonTable& table, const std::string& caption, const char* count,
                     const char* key) const {
    HtmlTable result{.caption = caption, .columns = {"method", count}, .naming_columns = 2, .rows = {}};
    for (const Index n : table.hidden) result.columns.push_back(fmt::format("N = {}", n));
    for (const ComparisonRow& row : table.rows) {
      std::vector<std::string> cells = {row.name, row.reflections};
      for (const Json* one : row.results) cells.push_back(comparison_cell(comparison_, one, key));
      result.rows.push_back(std::move(cells));
    }
    return result;
  }

  HtmlTable speed_up_table() const {
    HtmlTable result{.caption = "CWY over sequential Householder, times faster",
                     .columns = {"over", "L"},
                     .naming_columns = 2,
                     .rows = {}};
    for (const Index n : training_steps_.hidden) result.columns.push_back(fmt::format("N = {}", n));
    for (const char* over : {"householder", "householder-rank-one"}) {
      for (const ComparisonRow& row : training_steps_.rows) {
        if (row.method != "cwy") continue;
        std::vector<std::string> cells = {over == std::string("householder") ? "tiled" : "rank-one updates",
                                          row.reflections};
        for (const Json* cwy : row.results) {
          const auto factor = factor_over(over, cwy);
          cells.push_back(factor ? fmt::format("{:.2f}", *factor) : "");
        }
        result.rows.push_back(std::move(cells));
      }
    }
    return result;
  }

  HtmlTable stiefel_table() const {
    HtmlTable result{.caption = "Operations by formula, and times measured",
                     .columns = {"method", "N", "M", "operations", "millions", "Omega, ms", "step, ms"},
                     .naming_columns = 1,
                     .rows = {}};
    for (const Json& one : comparison_.at(stiefel)) {
      const bool forms_omega = one.at("method") == "t-cwy";
      result.rows.push_back({one.at("name"), fmt::format("{}", integer_member(one, "n")),
                             fmt::format("{}", integer_member(one, "m")), with_powers(one.at("flop_formula")),
                             comparison_cell(comparison_, &one, "mflop"),
                             forms_omega ? comparison_cell(comparison_, &one, "forward_ms") : "",
                             comparison_cell(comparison_, &one, "total_ms")});
    }
    return result;
  }

  /// "4 N M^2 + 7/3 M^3" with raised digits.
  static std::string with_powers(std::string formula) {
    for (const auto& [plain, raised] : {std::pair("^2", "²"), std::pair("^3", "³")}) {
      for (std::size_t at; (at = formula.find(plain)) != std::string::npos;) formula.replace(at, 2, raised);
    }
    return formula;
  }

  const Json& comparison_;
  const Json& settings_;
  ComparisonTable training_steps_, constructions_, stiefel_;
  std::string first_reflections_;
  PlotAxis sizes_;
};

}  // namespace

std::string comparison_page(const Json& comparison) {
  try {
    if (comparison.at("format") != comparison_format) throw ValueError("its format is another");
    if (integer_member(comparison, "format_version") > comparison_format_version) {
      throw ValueError(fmt::format("its format version {} is newer than this program, which reads {}",
                                   integer_member(comparison, "format_version"), comparison_format_version));
    }
    return ComparisonPage(comparison).str();
  } catch (const Json::exception& error) {
    throw ValueError(fmt::format("it is damaged ({})", error.what()));
  }
}

}  // namespace orthornn::program
