#include "pages/comparison_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "pages/comparison_table.hpp"
#include "pages/html_page.hpp"
#include "support/files.hpp"
#include "support/number_text.hpp"

namespace orthornn::program {
namespace {

/// The median of `total` or `forward` with the least and largest sample, at x = 0.
std::optional<PlotPoint> time_of(const Json& result, const std::string& what) {
  if (!result.contains(what + "_ms")) return std::nullopt;
  const std::vector<double> samples = result.at(what + "_samples_ms");
  if (samples.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  return PlotPoint{.x = 0, .y = result.at(what + "_ms"), .low = *low, .high = *high};
}
std::optional<PlotPoint> total_time(const Json& result) { return time_of(result, "total"); }
std::optional<PlotPoint> forward_time(const Json& result) { return time_of(result, "forward"); }

/// Draws one comparison. A method has the same colour in all plots of a section.
class ComparisonPage {
 public:
  explicit ComparisonPage(const Json& comparison)
      : comparison_(comparison),
        settings_(comparison.at("settings")),
        training_steps_(comparison_table(comparison, "training_step")),
        constructions_(comparison_table(comparison, "construction")),
        stiefel_(comparison_table(comparison, "stiefel")) {
    const std::vector<std::string> reflections = settings_.at("reflections");
    if (training_steps_.hidden.empty() || reflections.empty()) throw ValueError("it has no sizes");
    first_reflections_ = reflections.front();
    speed_ups_ = comparison_table(comparison, "speed_up");
    for (ComparisonRow& row : speed_ups_.rows)
      row.name = row.method == "householder" ? "tiled" : "rank-one updates";
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
    page.paragraph(
        "LSTM, GRU and cuDNN's layers, each by its fastest algorithm, are timed whole: with the product of a "
        "small input, which the other methods leave out.");
    page.figures(
        {methods("Time of a training step", "time [ms]", training_steps_, first_reflections_, total_time),
         rates(), speed_ups("householder", "tiled"), speed_ups("householder-rank-one", "rank-one updates"),
         times_by_reflections()});
    page.table(table_of(training_steps_, "Time of a training step, ms", "total_ms"));
    page.table(table_of(training_steps_, "Sequences · steps per second", "sequence_steps_per_second"));
    page.table(table_of(speed_ups_, "CWY over sequential Householder, times faster", "factor", "over"));
    page.heading("Construction of Q");
    page.paragraph(
        "From the parameters to the entries of Q, and back from the gradient of Q to that of the parameters. "
        "This is once an optimizer step, however long the sequences are.");
    page.figures({methods("Construction of Q", "time [ms]", constructions_, first_reflections_, forward_time),
                  methods("Construction of Q and the parameters' gradient", "time [ms]", constructions_,
                          first_reflections_, total_time)});
    page.table(table_of(constructions_, "Construction of Q, ms", "forward_ms"));
    page.table(table_of(constructions_, "Construction of Q and the parameters' gradient, ms", "total_ms"));
    page.heading("Stiefel manifold");
    page.paragraph(
        "An optimizer step on the N × M matrices with orthonormal columns: T-CWY forms Omega from its "
        "reflection vectors and turns the gradient of Omega into theirs; Riemannian gradient descent (RGD, "
        "with canonical or Euclidean metric, QR or Cayley retraction) moves Omega itself. Products of T-CWY "
        "use all threads, factorizations of RGD one. The formulas of T-CWY and OWN count the forming of "
        "Omega. What has no time was not in this build on this device.");
    page.figures(stiefel_times());
    page.table(stiefel_table());
    return page.str();
  }

 private:
  bool has_gpu() const { return comparison_.at("machine").contains("gpu"); }

  void add_machine(HtmlPage& page) const {
    const auto whole = [](const Json& of, const char* key) {
      return fmt::format("{}", integer_member(of, key));
    };
    const Json& machine = comparison_.at("machine");
    page.table(
        {.caption = "The machine",
         .columns = {"processor", "device", "threads", "compiler", "precision", "orthornn"},
         .naming_columns = 6,
         .rows = {{machine.at("processor"), machine.at("device"), whole(machine, "threads"),
                   machine.at("compiler"), machine.at("precision"), comparison_.at("library_version")}}});
    if (!has_gpu()) return;
    const Json& gpu = machine.at("gpu");
    page.table({.caption = "Its GPU",
                .columns = {"name", "compute capability", "multiprocessors", "clock", "memory", "CUDA",
                            "the driver's CUDA"},
                .naming_columns = 7,
                .rows = {{gpu.at("name"), gpu.at("compute_capability"), whole(gpu, "multiprocessors"),
                          whole(gpu, "clock_mhz") + " MHz",
                          fmt::format("{:.2f} GB", gpu.at("memory_bytes").get<double>() * 1e-9),
                          gpu.at("cuda"), gpu.at("driver_cuda")}}});
  }

  /// A plot over N: `line(row)` is the line of a row or nullopt, `value(result)` the point of a result, at
  /// any x, or nullopt.
  template <class Line, class Value>
  static Plot over_sizes(const std::string& title, const std::string& caption, const std::string& unit,
                         const ComparisonTable& table, const Line& line, const Value& value) {
    Plot plot{.title = title,
              .caption = caption,
              .x = {.title = "state size N", .logarithmic = true},
              .y = {.title = unit, .logarithmic = true}};
    plot.x.ticks.assign(table.hidden.begin(), table.hidden.end());
    for (const ComparisonRow& row : table.rows) {
      std::optional<PlotSeries> series = line(row);
      if (!series) continue;
      for (std::size_t i = 0; i < table.hidden.size(); ++i) {
        const std::optional<PlotPoint> point = row.results[i] ? value(*row.results[i]) : std::nullopt;
        if (point) series->points.push_back({plot.x.ticks[i], point->y, point->low, point->high});
      }
      plot.series.push_back(std::move(*series));
    }
    return plot;
  }

  /// Over N by method, methods with reflections at this L.
  template <class Value>
  static Plot methods(const std::string& title, const std::string& unit, const ComparisonTable& table,
                      const std::string& reflections, const Value& value) {
    return over_sizes(
        title,
        fmt::format("By method, both axes logarithmic; L or M = {} for methods that have reflections. "
                    "Points are medians, bars reach from the fastest to the slowest sample.",
                    reflections),
        unit, table,
        [&](const ComparisonRow& row) -> std::optional<PlotSeries> {
          if (!row.reflections.empty() && row.reflections != reflections) return std::nullopt;
          return PlotSeries{.name = row.name, .style = row.style};
        },
        value);
  }

  Plot rates() const {
    const double work = settings_.at("batch").get<double>() * settings_.at("length").get<double>() * 1e3;
    return methods("Throughput", "sequences · steps per second", training_steps_, first_reflections_,
                   [&](const Json& result) {
                     std::optional<PlotPoint> point = total_time(result);
                     if (point) *point = {0, work / point->y, work / *point->high, work / *point->low};
                     return point;
                   });
  }

  Plot speed_ups(const std::string& over, const std::string& name) const {
    Plot plot = over_sizes(
        fmt::format("CWY over sequential Householder, {}", name),
        "How many times less a training step takes with CWY than with the same reflections one after "
        "another, over N by L; 1 is no difference.",
        "times faster", speed_ups_,
        [&](const ComparisonRow& row) -> std::optional<PlotSeries> {
          if (row.method != over) return std::nullopt;
          return PlotSeries{.name = fmt::format("L = {}", row.reflections)};
        },
        [](const Json& one) {
          return std::optional(PlotPoint{0, one.at("factor")});
        });
    plot.levels = {{"no difference", 1}};
    return plot;
  }

  /// Time over L at the largest N; methods without reflections are horizontal lines.
  Plot times_by_reflections() const {
    Plot plot{.title = fmt::format("Time of a training step at N = {}", training_steps_.hidden.back()),
              .caption = "Over the number of reflections L. Methods that have none are level lines.",
              .x = {.title = "reflections L", .logarithmic = true},
              .y = {.title = "time [ms]", .logarithmic = true}};
    std::set<double> counts;
    for (const ComparisonRow& row : training_steps_.rows) {
      if (row.results.back() != nullptr && !row.reflections.empty())
        counts.insert(row.results.back()->at("reflections").get<double>());
    }
    plot.x.ticks.assign(counts.begin(), counts.end());
    for (const ComparisonRow& row : training_steps_.rows) {
      const Json* result = row.results.back();
      const std::optional<PlotPoint> time = result ? total_time(*result) : std::nullopt;
      if (!time) continue;
      if (plot.series.empty() || plot.series.back().name != row.name)
        plot.series.push_back({.name = row.name, .style = row.style});
      for (const double count : counts) {
        if (row.reflections.empty() || count == result->at("reflections").get<double>())
          plot.series.back().points.push_back({count, time->y, time->low, time->high});
      }
    }
    for (PlotSeries& line : plot.series) std::ranges::sort(line.points, {}, &PlotPoint::x);
    return plot;
  }

  /// One plot for each M: one plot for all would have too many lines.
  std::vector<Plot> stiefel_times() const {
    std::vector<Plot> plots;
    for (const std::string reflections : settings_.at("reflections")) {
      plots.push_back(methods(fmt::format("A step on the Stiefel manifold St(N, M), M = {}", reflections),
                              "time [ms]", stiefel_, reflections, total_time));
      plots.back().x.title = "rows N";
    }
    return plots;
  }

  /// A row for each method and L, with the results' `key` at each N.
  HtmlTable table_of(const ComparisonTable& table, const std::string& caption, const char* key,
                     const char* first_column = "method") const {
    HtmlTable result{.caption = caption, .columns = {first_column, "L"}, .naming_columns = 2};
    for (const Index n : table.hidden) result.columns.push_back(fmt::format("N = {}", n));
    const bool shows_growth = table.hidden.size() >= sizes_of_growth;
    if (shows_growth) result.columns.push_back("power of N");
    for (const ComparisonRow& row : table.rows) {
      std::vector<std::string>& cells = result.rows.emplace_back();
      cells = {row.name, row.reflections};
      for (const Json* one : row.results) cells.push_back(comparison_cell(comparison_, one, key));
      if (shows_growth) cells.push_back(growth_cell(table, row, key));
    }
    return result;
  }

  HtmlTable stiefel_table() const {
    HtmlTable table{.caption = "Operations by formula, and times measured",
                    .columns = {"method", "N", "M", "operations", "millions", "Omega, ms", "step, ms"}};
    for (const Json& one : comparison_.at("stiefel")) {
      const auto cell = [&](const char* key) { return comparison_cell(comparison_, &one, key); };
      table.rows.push_back({one.at("name"), std::to_string(integer_member(one, "n")),
                            std::to_string(integer_member(one, "m")), with_powers(one.at("flop_formula")),
                            cell("mflop"), one.value("backward_ms", 0.0) > 0 ? cell("forward_ms") : "",
                            cell("total_ms")});
    }
    return table;
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
  ComparisonTable training_steps_, constructions_, stiefel_, speed_ups_;
  std::string first_reflections_;
};

}  // namespace

std::string comparison_page(const Json& comparison) {
  try {
    if (const Json& format = member(comparison, "format"); format != comparison_format)
      refuse_member("format", fmt::format("'{}'", comparison_format), format);
    if (integer_member(comparison, "format_version") > comparison_format_version) {
      throw ValueError(fmt::format("its format version {} is newer than this program, which reads {}",
                                   integer_member(comparison, "format_version"), comparison_format_version));
    }
    return ComparisonPage(comparison).str();
  } catch (const Json::exception& error) {
    throw ValueError(fmt::format("it is damaged ({})", error.what()));
  }
}

std::string page_of_comparison(const std::filesystem::path& file) {
  const std::string text = read_whole_file(file);
  if (text.starts_with("\x89HDF")) {
    throw FileError(
        fmt::format("'{}' is an HDF5 file, as models are; report draws a training from its whole run "
                    "directory: give that",
                    file.string()));
  }
  try {
    const Json json = parse_json(text);
    const Json& first = json.is_array() && !json.empty() ? json.front() : json;
    if (first.is_object() && first.contains("benchmark")) {
      throw ValueError(
          "it holds results of bench rollout, prepare, train or translate, of which no page is drawn; report "
          "draws the "
          "JSON of 'orthornn bench compare --out DIR'");
    }
    return comparison_page(json);
  } catch (const ValueError& error) {
    throw FileError(
        fmt::format("'{}' is not what orthornn bench compare writes: {}", file.string(), error.what()));
  }
}

}  // namespace orthornn::program
