// bench compare: all methods over N, as tables, JSON and a page.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "bench/bench_cells.hpp"
#include "bench/benchmark.hpp"
#include "bench/random_tensors.hpp"
#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/standard_streams.hpp"
#include "commands/terminal_line.hpp"
#include "linalg/decompositions.hpp"  // not public, but it says what a build lacks
#include "optim/stiefel_steps.hpp"    // not public, but StiefelSgd takes memory at each step
#include "orthornn/io/atomic_file.hpp"
#include "orthornn/orthogonal/stiefel_point.hpp"
#include "pages/comparison_page.hpp"
#include "pages/comparison_table.hpp"
#include "support/reflection_count.hpp"

namespace orthornn::program {
namespace {

constexpr Activation compared_activation = Activation::modrelu;

struct CompareBenchmark {
  static constexpr const char* name = "compare";
  static constexpr const char* help =
      "All methods over N: training step, construction of Q, steps on the Stiefel manifold";
  std::vector<Index> hidden = {64, 128, 256, 512, 1024};
  std::vector<std::string> reflections = {"N", "N/2", "N/4", "128"};
  Index batch = 128, length = 100;
  double limit = 30;
  bool verbose = false;
  std::string out;
  MachineOptions machine;
  SamplingOptions sampling;

  static void fields(auto&& visit) {
    using Self = CompareBenchmark;
    visit("hidden", &Self::hidden, up_to(1 << 20), "State sizes N");
    visit("reflections", &Self::reflections, domain::any,
          "Reflections L (and M of the Stiefel manifold): N or 0, shares as N/2, numbers where they are at "
          "most N");
    visit("batch", &Self::batch, up_to(1 << 20), "Sequences B");
    visit("length", &Self::length, up_to(1 << 30), "Steps T");
    visit("limit", &Self::limit, domain::positive,
          "Seconds for the runs of one method at one size: when they have gone, those that there are count, "
          "at least one");
    visit("verbose", &Self::verbose, domain::any, "Print how each recurrence is computed");
    visit("out", &Self::out, domain::any, "Folder for compare.json and the page compare.html");
  }
  void add_to(CLI::App& command) {
    add_settings(command, *this);
    command.get_option("--reflections")->check(reflection_count());
    machine.add_precision_to(command);
    sampling.add_to(command);
  }
  int run();

  void tidy();
  void make_folder() const;
};

/// Sizes in their order, nothing twice, and no L that is above every N.
void CompareBenchmark::tidy() {
  std::ranges::sort(hidden);
  hidden = each_once(hidden);
  std::vector<std::string> kept;
  for (const std::string& given : reflections) {
    const ReflectionCount count = *ReflectionCount::parse(given);
    if (count.at(hidden.back())) kept.push_back(count.text());
  }
  if (kept.empty()) {
    throw UsageError(
        fmt::format("--reflections {} was given; expected N, a share as N/2, or one that is "
                    "at most the largest --hidden, {}",
                    fmt::join(reflections, ","), hidden.back()));
  }
  reflections = each_once(kept);
}

/// Creates the folder for compare.json and compare.html, if it was asked for.
void CompareBenchmark::make_folder() const {
  if (out.empty()) return;
  const fs::path folder = out;
  std::error_code status;
  fs::create_directories(folder, status);
  if (status) {
    throw FileError(
        fmt::format("cannot write in the folder '{}': {}; choose another --out", out, status.message()));
  }
  check_output(folder / "compare.html", OutputKind::page, sampling.results.overwrite);
  check_output(folder / "compare.json", OutputKind::results, sampling.results.overwrite);
  go_on_without_output();
}

/// Ways to a step on St(N, M). The operations are those of docs/math.md, section 2.3: of forming Omega for
/// T-CWY and OWN, of the whole step for the others, which `step` is.
struct StiefelMethod {
  const char* id;
  const char* name;
  const char* flop_formula;
  double nm2, m3;  // coefficients of N M^2 and M^3
  StiefelKind kind;
  std::optional<StiefelSgd> step = std::nullopt;
};
const StiefelMethod stiefel_methods[] = {
    {"t-cwy", "T-CWY", "4 N M^2 + M^3", 4, 1, StiefelKind::truncated_cwy},
    {"own", "OWN", "4 N M^2 + 14/3 M^3", 4, 14.0 / 3, StiefelKind::weight_normalization},
    {"rgd-c-qr", "RGD-C-QR", "10 N M^2 - 2/3 M^3", 10, -2.0 / 3, StiefelKind::matrix,
     StiefelSgd{StiefelSgd::Metric::canonical, StiefelSgd::Retraction::qr}},
    {"rgd-e-qr", "RGD-E-QR", "14 N M^2 - 2/3 M^3", 14, -2.0 / 3, StiefelKind::matrix,
     StiefelSgd{StiefelSgd::Metric::euclidean, StiefelSgd::Retraction::qr}},
    {"rgd-c-c", "RGD-C-C", "28 N M^2 + 16 M^3", 28, 16, StiefelKind::matrix,
     StiefelSgd{StiefelSgd::Metric::canonical, StiefelSgd::Retraction::cayley}}};

/// Whether this build has the method on a device.
bool is_timed(const StiefelMethod& method, Device device) {
  return method.kind == StiefelKind::truncated_cwy || has_decompositions(device);
}

/// A point of St(N, M) that is formed of its parameters, or moves by itself.
struct TimedStiefelStep {
  TimedStiefelStep(const StiefelMethod& timed, Index n, Index m, Device device)
      : method(timed),
        point(make_stiefel_point<float>(timed.kind, n, m, device)),
        parameters(stiefel_parameter(timed.kind, n, m).shape, device),
        d_parameters(zeros_like(parameters)),
        d_omega(normal_tensor({n, m}, device, 7)) {
    point->initialize(1, parameters);
    if (method.step) steps.emplace(Shape{n, m}, device, method.step->retraction);
  }

  void forward() {
    if (!method.step) return point->prepare(parameters);
    copy<float>(d_omega, d_parameters);
    steps->step(*method.step, parameters, d_parameters);
  }
  void backward() { point->backward(d_omega, d_parameters); }

  const StiefelMethod& method;
  std::unique_ptr<StiefelPoint<float>> point;
  Tensor<float> parameters, d_parameters, d_omega;
  std::optional<StiefelSteps<float>> steps;
};

Measured measured_stiefel_step(const StiefelMethod& method, Index n, Index m, Device device) {
  const double height = static_cast<double>(n), width = static_cast<double>(m);
  Measured measured{.fields = {{"n", n},
                               {"m", m},
                               {"flop_formula", method.flop_formula},
                               {"mflop", (method.nm2 * height + method.m3 * width) * width * width * 1e-6}}};
  if (!is_timed(method, device)) return measured;
  const auto timed = std::make_shared<TimedStiefelStep>(method, n, m, device);
  measured.pass.forward = [timed] { timed->forward(); };
  measured.pass.recordable = !method.step && timed->point->recordable();
  if (!method.step) measured.pass.backward = [timed] { timed->backward(); };
  return measured;
}

/// A row of a comparison, to be measured.
struct ComparedRow {
  /// Where it goes in the JSON.
  std::string list;
  std::string what;
  std::string method, name;
  std::function<Measured()> make;
};

/// Whether this build has the cell on a device.
bool is_timed(const BenchCell& cell, Device device) {
  if (std::holds_alternative<CudnnLayer>(cell.kind)) return device.is_cuda();
  return cell.name != WeightNormalization::name || has_decompositions(device);
}

std::vector<ComparedRow> compared_rows(const CompareBenchmark& settings, const Execution& execution) {
  const Device device = execution.device;
  std::vector<std::string> cells;
  for (const BenchCell& cell : bench_cells()) {
    if (!cell.title.empty() && is_timed(cell, device)) cells.push_back(cell.name);
  }
  const auto sized = sized_cells(cells, settings.hidden, settings.reflections, AboveN::is_left_out);
  const auto text_of = [](const SizedCell& one) {
    return fmt::format("{}, N = {}{}", one.cell.title, one.hidden,
                       one.cell.has_reflections() ? fmt::format(", L = {}", one.reflections) : "");
  };
  std::vector<ComparedRow> rows;
  const SequenceSizes sizes{settings.length, settings.batch, compared_activation};
  for (const SizedCell& one : sized) {
    rows.push_back({"training_step", "training step, " + text_of(one), one.cell.name, one.cell.title,
                    [one, sizes, execution] { return measured_rollout(one, sizes, execution); }});
  }
  for (const SizedCell& one : sized) {
    if (one.cell.is_whole_layer()) continue;
    // To form Q, CWY takes its dense form; in the recurrence it takes the cheaper one.
    const BenchCell& constructed = one.cell.name == Cwy::name ? bench_cell("cwy-dense") : one.cell;
    const SizedCell formed{constructed, one.hidden, one.reflections};
    rows.push_back(
        {"construction", "construction of Q, " + text_of(one), one.cell.name, one.cell.title,
         [formed, execution] { return measured_construction(formed, ConstructionEnd::entries, execution); }});
  }
  for (const Index n : settings.hidden) {
    for (const StiefelMethod& method : stiefel_methods) {
      for (const Index m : reflections_at(settings.reflections, n, AboveN::is_left_out)) {
        rows.push_back({"stiefel", fmt::format("{} on St({}, {})", method.name, n, m), method.id, method.name,
                        [&method, n, m, device] { return measured_stiefel_step(method, n, m, device); }});
      }
    }
  }
  return rows;
}

Json measure_compared(const ComparedRow& row, const CompareBenchmark& settings, Device device) {
  const Measured measured = row.make();
  Json json = {{"method", row.method}, {"name", row.name}};
  json.update(measured.fields);
  if (!measured.pass.forward) return json;
  const Samples samples =
      take_samples(device, measured.pass, settings.sampling.samples, nullptr, settings.limit);
  json.update(measured.details());
  samples.add_to(json);
  json["warmed_up"] = samples.warmed_up;
  if (row.list == "training_step")
    json["sequence_steps_per_second"] =
        static_cast<double>(settings.batch * settings.length) * 1e3 / json["total_ms"].get<double>();
  return json;
}

/// What is being measured, on standard error: one line that is written over on a terminal, else a line every
/// few seconds.
class MeasuringProgress {
 public:
  explicit MeasuringProgress(std::size_t count) : count_(count) {}
  ~MeasuringProgress() {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }
  MeasuringProgress(const MeasuringProgress&) = delete;
  MeasuringProgress& operator=(const MeasuringProgress&) = delete;

  /// Begins the next measurement.
  void begin(const std::string& what) {
    ++number_;
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ && now - shown_ < std::chrono::seconds(2)) return;
    shown_ = now;
    const std::string passed = duration(std::chrono::duration<double>(now - start_).count());
    const std::string text =
        fitted_line({{0, fmt::format("{}/{}", number_, count_)}, {1, "  " + what}, {2, "  after " + passed}},
                    terminal_ ? terminal_columns(STDERR_FILENO) : std::numeric_limits<Index>::max());
    std::fputs((terminal_ ? "\r\033[K" + text : text + "\n").c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::size_t count_;
  std::size_t number_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = start_;
};

std::string compiler_name() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

/// The command that would measure the same, with every setting; where its results go is left out.
std::string command_line(const CompareBenchmark& settings, const Execution& execution) {
  return fmt::format(
      "orthornn bench compare --hidden {} --reflections {} --batch {} --length {} --samples {} --limit {} "
      "--device {} --precision {} --threads {}",
      fmt::join(settings.hidden, ","), fmt::join(settings.reflections, ","), settings.batch, settings.length,
      settings.sampling.samples, settings.limit, execution.device.is_cuda() ? "cuda" : "cpu",
      name_of(execution.precision), thread_count());
}

Json description_of(const CompareBenchmark& settings, const Execution& execution) {
  Json machine = machine_fields(execution);
  machine["compiler"] = compiler_name();
  return {{"format", comparison_format},
          {"format_version", comparison_format_version},
          {"library_version", version()},
          {"command", command_line(settings, execution)},
          {"machine", machine},
          {"settings",
           {{"hidden", settings.hidden},
            {"reflections", settings.reflections},
            {"batch", settings.batch},
            {"length", settings.length},
            {"activation", name_of(compared_activation)},
            {"samples", settings.sampling.samples},
            {"limit_seconds", settings.limit}}},
          {"training_step", Json::array()},
          {"construction", Json::array()},
          {"stiefel", Json::array()},
          {"speed_up", Json::array()}};
}

/// How each training step was computed.
void print_compared_recurrences(const Json& comparison) {
  fmt::print("\n");
  for (const Json& result : comparison["training_step"]) {
    const auto form = result["form"].get<std::string>();
    fmt::print("{}, N = {}, L = {}: {}{} rollout\n", result["name"].get<std::string>(),
               result["hidden"].get<Index>(), result["reflections"].get<Index>(),
               form.empty() ? "" : form + " form, ", result["rollout"].get<std::string>());
  }
}

/// A table with a column for each N and a row for each method and L (or M); `key` is one of the results'. The
/// last column is the power of N with which the row grows.
void print_table(const Json& comparison, const std::string& title, const std::string& list, const char* key) {
  const ComparisonTable table = comparison_table(comparison, list);
  fmt::print("\n{}\n{:<40}{:>5}", title, "", list == "stiefel" ? "M" : "L");
  for (const Index n : table.hidden) fmt::print("{:>11}", fmt::format("N = {}", n));
  const bool shows_growth = table.hidden.size() >= sizes_of_growth;
  fmt::print("{}\n", shows_growth ? "    N to the" : "");
  for (const ComparisonRow& row : table.rows) {
    std::string cells;
    for (const Json* result : row.results) {
      const std::string cell = comparison_cell(comparison, result, key);
      cells += fmt::format("{:>11}", cell.ends_with('*') ? cell : cell + " ");
    }
    if (cells.find_first_not_of(' ') == std::string::npos) continue;
    const std::string name = list == "speed_up" ? bench_cell(row.method).title : row.name;
    if (shows_growth) cells += fmt::format("{:>12}", growth_cell(table, row, key));
    fmt::print("{:<40}{:>5}{}\n", name, row.reflections, cells);
  }
}

/// Where it was measured, and a table of each list.
void print_tables(const Json& comparison, const CompareBenchmark& settings, const Execution& execution) {
  fmt::print("{}, {} threads, {}\n", machine_text(execution), thread_count(), compiler_name());
  fmt::print("medians of {} samples after a warm-up; * fewer, as {} s had gone\n", settings.sampling.samples,
             settings.limit);
  print_table(
      comparison,
      fmt::format("training step, ms: prepare, forward, backward and gradient of the parameters; batch "
                  "{}, {} steps, {}",
                  settings.batch, settings.length, name_of(compared_activation)),
      "training_step", "total_ms");
  print_table(comparison, "CWY over the same reflections one after another, times faster", "speed_up",
              "factor");
  print_table(comparison, "construction of Q from the parameters, ms", "construction", "forward_ms");
  print_table(comparison, "construction of Q and the parameters' gradient from that of Q, ms", "construction",
              "total_ms");
  print_table(comparison, "Stiefel manifold St(N, M), millions of operations by formula", "stiefel", "mflop");
  print_table(
      comparison,
      "Stiefel manifold St(N, M), ms of an optimizer step: T-CWY and OWN form Omega and the gradient of\n"
      "their parameters, RGD moves Omega itself",
      "stiefel", "total_ms");
  fmt::print("\n");
  for (const StiefelMethod& method : stiefel_methods)
    fmt::print("{:<9} {}{}\n", method.name, method.flop_formula,
               is_timed(method, execution.device) ? "" : "; not in this build on this device");
  std::fflush(stdout);
}

int CompareBenchmark::run() {
  // Whatever the length, CWY has one of its compact forms: they are what is compared.
  const Execution execution = machine.apply(batch);
  tidy();
  sampling.complete(execution.device);
  make_folder();
  Json comparison = description_of(*this, execution);
  {
    const std::vector<ComparedRow> rows = compared_rows(*this, execution);
    MeasuringProgress progress(rows.size());
    for (const ComparedRow& row : rows) {
      progress.begin(row.what);
      comparison[row.list].push_back(measure_compared(row, *this, execution.device));
    }
  }
  comparison["speed_up"] = gains_of_cwy(comparison["training_step"], "method");
  const fs::path json = fs::path(out) / "compare.json", html = fs::path(out) / "compare.html";
  if (!out.empty()) write_file_atomically(json, json_text(comparison) + "\n", SymbolicLinks::replaced);
  sampling.results.write(comparison);
  if (verbose) print_compared_recurrences(comparison);
  print_tables(comparison, *this, execution);
  if (out.empty()) return success;
  fmt::print("\nevery sample: {}\n", json.string());
  write_file_atomically(html, comparison_page(comparison), SymbolicLinks::replaced);
  fmt::print("page: {}\n", html.string());
  return success;
}

}  // namespace

Benchmark compare_benchmark() { return benchmark_of<CompareBenchmark>(); }

}  // namespace orthornn::program
