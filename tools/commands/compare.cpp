#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/compare_tables.hpp"
#include "commands/cudnn_rnn.hpp"
#include "commands/limited_samples.hpp"
#include "commands/machine.hpp"
#include "commands/measured_layer.hpp"
#include "commands/measured_transition.hpp"
#include "commands/measuring_progress.hpp"
#include "commands/output_file.hpp"
#include "commands/program.hpp"
#include "commands/standard_streams.hpp"
#include "commands/timing.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "pages/comparison_page.hpp"
#include "pages/gnuplot.hpp"
#include "pages/reflection_count.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr Activation compared_activation = Activation::modrelu;

struct CompareSettings {
  std::vector<Index> hidden = {64, 128, 256, 512, 1024};
  std::vector<std::string> reflections = {"N", "N/2", "N/4", "128"};
  Index batch = 128;
  Index length = 100;
  int samples = 0;
  double limit = 30;
  MachineOptions machine;
  bool verbose = false;
  std::string out;
  std::string json;
  bool overwrite = false;

  /// Sizes in their order, nothing twice, and no L that is above every N; what was left out and depends on
  /// the device.
  void tidy(Device device) {
    if (samples == 0) samples = default_samples(device);
    std::sort(hidden.begin(), hidden.end());
    hidden.erase(std::unique(hidden.begin(), hidden.end()), hidden.end());
    std::vector<std::string> kept;
    for (const std::string& given : reflections) {
      const ReflectionCount count = *ReflectionCount::parse(given);
      const bool fits = count.at(hidden.back()).has_value();
      if (fits && std::count(kept.begin(), kept.end(), count.text()) == 0) kept.push_back(count.text());
    }
    if (kept.empty()) {
      throw UsageError(
          fmt::format("--reflections {} was given; expected N, a share as N/2, or one that is "
                      "at most the largest --hidden, {}",
                      fmt::join(reflections, ","), hidden.back()));
    }
    reflections = std::move(kept);
  }
};

/// Ways to a step on St(N, M). The operations are those of docs/math.md, section 2.3: of forming Omega for
/// T-CWY and OWN, of the whole step for the others.
struct StiefelMethod {
  const char* id;
  const char* name;
  const char* flop_formula;
  double nm2, m3;  // coefficients of N M^2 and M^3
  std::optional<StiefelSgd> step;
};
const StiefelMethod stiefel_methods[] = {
    {"t-cwy", "T-CWY", "4 N M^2 + 7/3 M^3", 4, 7.0 / 3, std::nullopt},
    {"own", "OWN", "4 N M^2 + 14/3 M^3", 4, 14.0 / 3, std::nullopt},
    {"rgd-c-qr", "RGD-C-QR", "10 N M^2 - 2/3 M^3", 10, -2.0 / 3,
     StiefelSgd{StiefelSgd::Metric::canonical, StiefelSgd::Retraction::qr}},
    {"rgd-e-qr", "RGD-E-QR", "14 N M^2 - 2/3 M^3", 14, -2.0 / 3,
     StiefelSgd{StiefelSgd::Metric::euclidean, StiefelSgd::Retraction::qr}},
    {"rgd-c-c", "RGD-C-C", "28 N M^2 + 16 M^3", 28, 16,
     StiefelSgd{StiefelSgd::Metric::canonical, StiefelSgd::Retraction::cayley}}};

/// This library has no OWN, and Riemannian gradient descent on the CPU alone: beside a GPU's times that would
/// be no comparison.
bool is_timed(const StiefelMethod& method, Device device) {
  return method.id != std::string("own") && !(method.step && device.is_cuda());
}

/// Something to be measured: takes the samples and says what they are of.
struct Measurement {
  const char* list;  // where it goes in the JSON
  std::string what;
  std::function<Json()> run;
};

/// The values of L at this size, each once.
std::vector<Index> reflections_at(const CompareSettings& settings, Index hidden) {
  std::vector<Index> found;
  for (const std::string& text : settings.reflections) {
    const std::optional<Index> reflections = ReflectionCount::parse(text)->at(hidden);
    if (reflections && std::count(found.begin(), found.end(), *reflections) == 0)
      found.push_back(*reflections);
  }
  return found;
}

Json measure(const std::string& method, const std::string& name, Measured& measured, Device device,
             const CompareSettings& settings) {
  Json json = {{"method", method},
               {"name", name},
               {"form", measured.form()},
               {"hidden", measured.hidden_size()},
               {"reflections", measured.reflections()}};
  const LimitedSamples samples = take_samples(
      device, [&] { return measured.run(); }, settings.samples, settings.limit);
  json.update(measured.details());
  samples.add_to(json);
  return json;
}

/// The same of a recurrence.
Json measure_rollout(const std::string& method, const std::string& name, Measured& measured, Device device,
                     const CompareSettings& settings) {
  Json json = measure(method, name, measured, device, settings);
  json["sequence_steps_per_second"] =
      static_cast<double>(settings.batch * settings.length) * 1e3 / json["total_ms"].get<double>();
  return json;
}

Json measure_stiefel(const StiefelMethod& method, Index n, Index m, Device device,
                     const CompareSettings& settings) {
  const double height = static_cast<double>(n), width = static_cast<double>(m);
  Json json = {{"method", method.id},
               {"name", method.name},
               {"n", n},
               {"m", m},
               {"flop_formula", method.flop_formula},
               {"mflop", (method.nm2 * height + method.m3 * width) * width * width * 1e-6}};
  if (!is_timed(method, device)) return json;
  TruncatedCwy<float> truncated(n, m, device);
  Tensor<float> vectors(truncated.parameter_shape(), device), d_vectors(vectors.shape(), device);
  truncated.initialize(1, vectors);
  truncated.prepare(vectors);
  Tensor<float> omega = truncated.materialize(), d_omega(omega.shape(), device);
  fill_normal(d_omega, 7);
  TimedPass pass(device, true,
                 {.forward = [&] { truncated.prepare(vectors); },
                  .backward = [&] { truncated.backward(d_omega, d_vectors); }});
  const auto run = [&] {
    if (!method.step) return pass.run();
    return Sample{milliseconds(device, [&] { method.step->step<float>(omega, d_omega); }), 0};
  };
  take_samples(device, run, settings.samples, settings.limit).add_to(json);
  return json;
}

/// Calls `add(cell, hidden, reflections, what)` for each cell at each size, with each number of reflections.
void each_size(const CompareSettings& settings, const auto& add) {
  for (const Index hidden : settings.hidden) {
    const std::vector<Index> reflections = reflections_at(settings, hidden);
    for (const BenchCell& cell : bench_cells()) {
      if (cell.title.empty()) continue;
      if (!cell.has_reflections()) {
        add(cell, hidden, 0, fmt::format("{}, N = {}", cell.title, hidden));
        continue;
      }
      for (const Index l : reflections)
        add(cell, hidden, l, fmt::format("{}, N = {}, L = {}", cell.title, hidden, l));
    }
  }
}

/// All measurements in their order. They refer to the settings, which must outlive them.
class MeasurementList {
 public:
  MeasurementList(const CompareSettings& settings, const Execution& execution)
      : settings_(settings), execution_(execution) {
    add_rollouts();
    add_layers();
    add_cudnn_layers();
    add_constructions();
    add_stiefel_steps();
  }

  const std::vector<Measurement>& all() const { return all_; }

 private:
  void add_rollouts();
  void add_layers();
  void add_cudnn_layers();
  void add_constructions();
  void add_stiefel_steps();
  /// Of the layer that `make(hidden)` returns, at each size.
  void add_layer(const std::string& method, const std::string& name, const auto& make);

  const CompareSettings& settings_;
  Execution execution_;
  std::vector<Measurement> all_ = {};
};

void MeasurementList::add_rollouts() {
  each_size(settings_, [&](const BenchCell& cell, Index hidden, Index reflections, const std::string& what) {
    all_.push_back({"training_step", "training step, " + what,
                    [&settings = settings_, &cell, hidden, reflections, execution = execution_] {
                      MeasuredRollout rollout(cell, hidden, reflections, settings.length, settings.batch,
                                              compared_activation, execution);
                      return measure_rollout(cell.name, cell.title, rollout, execution.device, settings);
                    }});
  });
}

void MeasurementList::add_layer(const std::string& method, const std::string& name, const auto& make) {
  for (const Index hidden : settings_.hidden) {
    all_.push_back({"training_step", fmt::format("training step, {}, N = {}", name, hidden),
                    [&settings = settings_, method, name, hidden, make, device = execution_.device] {
                      const std::unique_ptr<Measured> layer = make(hidden);
                      return measure_rollout(method, name, *layer, device, settings);
                    }});
  }
}

void MeasurementList::add_layers() {
  for (const BenchLayer& layer : bench_layers()) {
    add_layer(layer.name, layer.title, [&settings = settings_, &layer, execution = execution_](Index hidden) {
      return std::make_unique<MeasuredLayer>(layer, hidden, settings.length, settings.batch, execution);
    });
  }
}

void MeasurementList::add_cudnn_layers() {
  if constexpr (has_cudnn) {
    constexpr Choice<CudnnLayer> titles[] = {{"cuDNN tanh RNN, unconstrained", CudnnLayer::tanh},
                                             {"cuDNN LSTM", CudnnLayer::lstm},
                                             {"cuDNN GRU", CudnnLayer::gru}};
    for (const auto& [title, layer] : titles) {
      if (!execution_.device.is_cuda()) break;
      add_layer(name_of(layer), title,
                [&settings = settings_, layer = layer, execution = execution_](Index hidden) {
                  return make_cudnn_rnn(layer, execution, hidden, settings.length, settings.batch);
                });
    }
  }
}

void MeasurementList::add_constructions() {
  each_size(settings_, [&](const BenchCell& cell, Index hidden, Index reflections, const std::string& what) {
    all_.push_back({"construction", "construction of Q, " + what,
                    [&settings = settings_, &cell, hidden, reflections, execution = execution_] {
                      // To form Q, CWY takes its dense form; in the recurrence it takes the cheaper one.
                      const BenchCell& constructed = cell.name == Cwy::name ? bench_cell("cwy-dense") : cell;
                      MeasuredConstruction construction(constructed, hidden, reflections, execution);
                      return measure(cell.name, cell.title, construction, execution.device, settings);
                    }});
  });
}

void MeasurementList::add_stiefel_steps() {
  for (const Index n : settings_.hidden) {
    for (const StiefelMethod& method : stiefel_methods) {
      for (const Index m : reflections_at(settings_, n)) {
        all_.push_back({"stiefel", fmt::format("{} on St({}, {})", method.name, n, m),
                        [&settings = settings_, &method, n, m, device = execution_.device] {
                          return measure_stiefel(method, n, m, device, settings);
                        }});
      }
    }
  }
}

std::string compiler_name() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

/// The command that would measure the same, with every setting; where its results go is left out.
std::string command_line(const CompareSettings& settings, const Execution& execution) {
  return fmt::format(
      "orthornn bench compare --hidden {} --reflections {} --batch {} --length {} --samples {} --limit {} "
      "--device {} --precision {} --threads {}",
      fmt::join(settings.hidden, ","), fmt::join(settings.reflections, ","), settings.batch, settings.length,
      settings.samples, settings.limit, execution.device.is_cuda() ? "cuda" : "cpu",
      name_of(execution.precision), thread_count());
}

Json description(const CompareSettings& settings, const Execution& execution) {
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
            {"samples", settings.samples},
            {"limit_seconds", settings.limit}}},
          {"training_step", Json::array()},
          {"construction", Json::array()},
          {"stiefel", Json::array()},
          {"speed_up", Json::array()}};
}

/// What CWY gains over both ways to multiply reflections one by one, wherever L is the same.
Json speed_ups(const Json& training_steps) {
  Json found = Json::array();
  for (const Json& cwy : training_steps) {
    if (cwy["method"] != "cwy") continue;
    for (const Json& other : training_steps) {
      if (!other["method"].get<std::string>().starts_with("householder")) continue;
      if (other["hidden"] != cwy["hidden"] || other["reflections"] != cwy["reflections"]) continue;
      found.push_back({{"over", other["method"]},
                       {"hidden", cwy["hidden"]},
                       {"reflections", cwy["reflections"]},
                       {"factor", other["total_ms"].get<double>() / cwy["total_ms"].get<double>()}});
    }
  }
  return found;
}

/// By which formulas the table has their operations.
void print_stiefel_methods(Device device) {
  fmt::print("\n");
  for (const StiefelMethod& method : stiefel_methods)
    fmt::print("{:<9} {}{}\n", method.name, method.flop_formula,
               method.step && !is_timed(method, device) ? "; on the CPU alone, so not timed" : "");
}

/// Creates the folder for compare.json and compare.html.
void make_folder(const fs::path& folder, bool overwrite) {
  std::error_code status;
  fs::create_directories(folder, status);
  if (status) {
    throw FileError(fmt::format("cannot write in the folder '{}': {}; choose another --out", folder.string(),
                                status.message()));
  }
  check_output(folder / "compare.html", OutputKind::page, overwrite);
  check_output(folder / "compare.json", OutputKind::results, overwrite);
}

int compare(CompareSettings& settings) {
  // Whatever the length, CWY has one of its compact forms: they are what is compared.
  const Execution execution = settings.machine.apply(settings.batch);
  settings.tidy(execution.device);
  if (!settings.json.empty()) check_output(settings.json, OutputKind::results, settings.overwrite);
  const fs::path folder = settings.out;
  bool page = !settings.out.empty();
  if (page || !settings.json.empty()) go_on_without_output();
  if (page) {
    make_folder(folder, settings.overwrite);
    if (!gnuplot_is_installed()) {
      page = false;
      note(fmt::format(
          "{}: tables and compare.json will be written, but no page; draw it later, here or elsewhere, by "
          "'orthornn report {}'",
          gnuplot_advice, (folder / "compare.json").string()));
    }
  }

  Json comparison = description(settings, execution);
  {
    const MeasurementList list(settings, execution);
    MeasuringProgress progress(list.all().size());
    for (const Measurement& measurement : list.all()) {
      progress.begin(measurement.what);
      comparison[measurement.list].push_back(measurement.run());
    }
  }
  comparison["speed_up"] = speed_ups(comparison["training_step"]);
  const std::string text = json_text(comparison) + "\n";  // a processor may have any name
  if (!settings.out.empty()) write_file_atomically(folder / "compare.json", text, SymbolicLinks::replaced);
  if (!settings.json.empty()) write_file_atomically(settings.json, text, SymbolicLinks::replaced);
  if (settings.verbose) print_compared_recurrences(comparison);
  print_comparison_tables(comparison, execution);
  print_stiefel_methods(execution.device);
  print_gains_of_cwy(comparison);
  std::fflush(stdout);
  if (settings.out.empty()) return success;
  fmt::print("\nevery sample: {}\n", (folder / "compare.json").string());
  if (page) {
    write_file_atomically(folder / "compare.html", comparison_page(comparison), SymbolicLinks::replaced);
    fmt::print("page: {}\n", (folder / "compare.html").string());
  }
  return success;
}

}  // namespace

void add_compare(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "compare", "All methods over N: training step, construction of Q, steps on the Stiefel manifold");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<CompareSettings>();
  command->add_option("--hidden", settings->hidden, "State sizes N, with commas between")
      ->delimiter(',')
      ->transform(whole_number_in(1, Index{1} << 20));
  command
      ->add_option(
          "--reflections", settings->reflections,
          "Reflections L (and M of the Stiefel manifold): N or 0, shares as N/2, numbers where they are "
          "at most N; with commas between")
      ->delimiter(',')
      ->check(reflection_count());
  command->add_option("--batch", settings->batch, "Sequences B")
      ->transform(whole_number_in(1, Index{1} << 20));
  command->add_option("--length", settings->length, "Steps T")->transform(whole_number_in(1, Index{1} << 30));
  command
      ->add_option("--samples", settings->samples,
                   "Timed runs of each; the tables have their medians; left out: 5, on a GPU 20")
      ->default_str("")
      ->transform(whole_number_in(1, 100000));
  command
      ->add_option(
          "--limit", settings->limit,
          "Seconds for the runs of one method at one size: when they have gone, those that there are "
          "count, at least one")
      ->check(number_in(domain::positive));
  settings->machine.add_precision_to(*command);
  command->add_flag("--verbose", settings->verbose, "Print how each recurrence is computed");
  command->add_option("--out", settings->out, "Folder for compare.json and the page compare.html");
  command->add_option("--json", settings->json, "File for all results with every sample");
  add_overwrite(*command, settings->overwrite);
  command->callback([&chosen, settings] { chosen = [settings] { return compare(*settings); }; });
}

}  // namespace orthornn::program
