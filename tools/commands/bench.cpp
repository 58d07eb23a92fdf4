#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/cudnn_rnn.hpp"
#include "commands/eigen_product.hpp"
#include "commands/field_options.hpp"
#include "commands/machine.hpp"
#include "commands/measured_layer.hpp"
#include "commands/measured_transition.hpp"
#include "commands/output_file.hpp"
#include "commands/program.hpp"
#include "commands/standard_streams.hpp"
#include "commands/timing.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

struct BenchSettings {
  std::vector<std::string> cells;
  std::vector<Index> hidden = {128, 190, 512};
  std::vector<Index> reflections = {0};
  Index batch = 128;
  Index length = 100;
  Activation activation = Activation::modrelu;
  int samples = 0;
  MachineOptions machine;
  std::string json;
  bool overwrite = false;

  /// What was left out and depends on the device.
  void complete(Device device, bool rollout) {
    if (samples == 0) samples = default_samples(device);
    if (!cells.empty()) return;
    cells = {"cwy", "householder", "householder-rank-one", "free"};
    if (rollout && has_cudnn && device.is_cuda()) cells.push_back(name_of(CudnnLayer::tanh));
  }
};

/// Which columns a table has.
struct Columns {
  bool rollout;
  /// The way of the rollout and its time a step, in place of the share of the machine's GEMM: on a GPU the
  /// time of a step is mostly synchronisation.
  bool gpu;

  bool gemm() const { return rollout && !gpu; }
  bool steps() const { return rollout && gpu; }
};

void print_head(const Columns& columns) {
  fmt::print("\n{:<21} {:<10}", "cell", "form");
  if (columns.steps()) fmt::print(" {:<23}", "rollout");
  fmt::print(" {:>5} {:>5} {:>11} {:>11} {:>11}", "N", "L", "forward ms", "backward ms", "total ms");
  if (columns.steps()) fmt::print(" {:>8}", "us/step");
  if (columns.rollout) fmt::print(" {:>8} {:>8}", "GFLOP/s", "|I-A'A|");
  if (columns.gemm()) fmt::print(" {:>8} {:>8}", "GEMM", "share");
  fmt::print("\n");
}

/// Times one cell and prints its row as soon as it is known.
Json measure(Measured& measured, const BenchSettings& settings, const Execution& execution,
             const Columns& columns) {
  std::optional<EigenProduct<float>> product;
  if (columns.gemm()) product.emplace(measured.hidden_size(), settings.batch);
  Samples samples;
  std::vector<double> gemm, share;
  for (int i = 0; i < warm_up_runs(execution.device); ++i) measured.run();
  if (product) product->gflops();
  for (int i = 0; i < settings.samples; ++i) {
    samples.add(measured.run());
    if (!product) continue;
    // Right after each sample, so that both see the same machine when its speed drifts.
    gemm.push_back(product->gflops());
    share.push_back(measured.flops() / samples.total.back() * 1e-6 / gemm.back());
  }
  Json json = {{"benchmark", columns.rollout ? "rollout" : "prepare"},
               {"cell", measured.cell()},
               {"form", measured.form()},
               {"hidden", measured.hidden_size()},
               {"reflections", measured.reflections()},
               {"batch", columns.rollout ? settings.batch : 0},
               {"length", columns.rollout ? settings.length : 0}};
  json.update(measured.details());
  json.update(machine_fields(execution));
  samples.add_to(json);
  const double total = median(samples.total);

  fmt::print("{:<21} {:<10}", measured.cell(), measured.form());
  if (columns.steps()) fmt::print(" {:<23}", json["rollout"].get<std::string>());
  fmt::print(" {:>5} {:>5} {:>11.3f} {:>11.3f} {:>11.3f}", measured.hidden_size(), measured.reflections(),
             median(samples.forward), median(samples.backward), total);
  if (columns.rollout) {
    const double step = total * 1e3 / static_cast<double>(settings.length);
    const double gflops = measured.flops() / total * 1e-6;
    json["step_us"] = step;
    json["gflop"] = measured.flops() * 1e-9;
    json["gflops"] = gflops;
    if (columns.steps()) fmt::print(" {:>8.3f}", step);
    fmt::print(" {:>8.1f}", gflops);
    // Whole layers have none.
    const bool known = json.contains("orthogonality_error");
    fmt::print(" {:>8}", known ? fmt::format("{:.1e}", json["orthogonality_error"].get<double>()) : "");
  }
  if (product) {
    json["gemm_gflops"] = median(gemm);
    json["share_of_gemm"] = median(share);
    json["gemm_samples_gflops"] = gemm;
    fmt::print(" {:>8.1f} {:>6.0f} %", median(gemm), 100 * median(share));
  }
  fmt::print("\n");
  std::fflush(stdout);
  return json;
}

/// What CWY gains over the two ways to multiply reflections one by one, wherever it was timed beside them.
void print_gains(const Json& results) {
  const auto time_of = [&](const char* cell, const Json& like) -> std::optional<double> {
    for (const Json& result : results) {
      if (result["cell"] == cell && result["hidden"] == like["hidden"] &&
          result["reflections"] == like["reflections"]) {
        return result["total_ms"].get<double>();
      }
    }
    return std::nullopt;
  };
  bool first = true;
  for (const Json& cwy : results) {
    if (cwy["cell"] != "cwy") continue;
    const double time = cwy["total_ms"];
    const std::optional<double> sequential = time_of("householder", cwy);
    const std::optional<double> rank_one = time_of("householder-rank-one", cwy);
    std::vector<std::string> gains;
    const auto add = [&](double other, const char* name) {
      gains.push_back(fmt::format("{:.2f} times {} than {}", std::max(other / time, time / other),
                                  other >= time ? "faster" : "slower", name));
    };
    if (sequential) add(*sequential, "sequential Householder");
    if (rank_one) add(*rank_one, "rank-one updates");
    if (gains.empty()) continue;
    fmt::print("{}CWY is {} (N = {}, L = {})\n", first ? "\n" : "", fmt::join(gains, ", "),
               cwy["hidden"].get<Index>(), cwy["reflections"].get<Index>());
    first = false;
  }
}

/// One row of a table.
struct Row {
  std::string name;
  Index hidden, reflections;
};

std::optional<CudnnLayer> cudnn_layer(const std::string& name) {
  for (const auto& [known, layer] : Names<CudnnLayer>::list) {
    if (known == name) return layer;
  }
  return std::nullopt;
}

/// Whether the input product is part of what is timed.
bool is_whole_layer(const std::string& name) {
  return cudnn_layer(name).has_value() || find_bench_layer(name) != nullptr;
}

/// Throws UsageError where a size has fewer numbers than reflections.
std::vector<Row> rows_of(const BenchSettings& settings) {
  std::vector<Row> rows;
  for (const Index hidden : settings.hidden) {
    for (const std::string& name : settings.cells) {
      const bool has_reflections = !is_whole_layer(name) && bench_cell(name).has_reflections();
      std::vector<Index> done;
      for (const Index wanted : settings.reflections) {
        if (has_reflections && wanted > hidden)
          throw UsageError(fmt::format("--reflections {} is more than --hidden {}", wanted, hidden));
        const Index reflections = !has_reflections ? 0 : wanted == 0 ? hidden : wanted;
        if (std::count(done.begin(), done.end(), reflections) > 0) continue;
        done.push_back(reflections);
        rows.push_back({name, hidden, reflections});
      }
    }
  }
  return rows;
}

/// Throws UsageError where --rollout names a way that one of the rows cannot go, before any is measured.
void check_ways(const std::vector<Row>& rows, const BenchSettings& settings, const Execution& execution) {
  for (const Row& row : rows) {
    if (cudnn_layer(row.name)) continue;
    if (const BenchLayer* kind = find_bench_layer(row.name)) {
      ParameterSet<float> parameters;
      const auto layer = make_layer(parameters, "layer", layer_options(kind->with(row.hidden)),
                                    measured_input_size, execution);
      chosen_description(*layer, execution, settings.length, settings.batch);
      continue;
    }
    const TransitionOptions options = bench_cell(row.name).with(row.reflections);
    chosen_way(*make_transition<float>(options, row.hidden, execution), settings.length, settings.batch);
  }
}

/// A row's cell, in device memory.
std::unique_ptr<Measured> make_measured(const BenchSettings& settings, const Row& row,
                                        const Execution& execution, bool rollout) {
  if constexpr (has_cudnn) {
    if (const std::optional<CudnnLayer> layer = cudnn_layer(row.name))
      return make_cudnn_rnn(*layer, execution, row.hidden, settings.length, settings.batch);
  }
  if (const BenchLayer* layer = find_bench_layer(row.name)) {
    return std::make_unique<MeasuredLayer>(*layer, row.hidden, settings.length, settings.batch, execution);
  }
  const BenchCell& cell = bench_cell(row.name);
  if (!rollout) return std::make_unique<MeasuredPrepare>(cell, row.hidden, row.reflections, execution);
  return std::make_unique<MeasuredRollout>(cell, row.hidden, row.reflections, settings.length, settings.batch,
                                           settings.activation, execution);
}

int bench(BenchSettings& settings, bool rollout) {
  const Execution execution = rollout ? settings.machine.apply(settings.batch, settings.length)
                                      : settings.machine.apply(settings.batch);
  settings.complete(execution.device, rollout);
  if (!settings.json.empty()) {
    check_output(settings.json, OutputKind::results, settings.overwrite);
    go_on_without_output();
  }
  const std::vector<Row> rows = rows_of(settings);
  if (rollout) check_ways(rows, settings, execution);
  const Columns columns{.rollout = rollout, .gpu = execution.device.is_cuda()};
  if (rollout) {
    fmt::print(
        "rollout: prepare + forward, then backward + gradient of the parameters; batch {}, {} steps, {}\n",
        settings.batch, settings.length, name_of(settings.activation));
  } else {
    fmt::print("prepare: forming Q or its factors, then the parameters' gradient from that of Q\n");
  }
  fmt::print("{}, {} threads, medians of {} after a warm-up\n", machine_text(execution), thread_count(),
             settings.samples);
  if (columns.gemm()) {
    fmt::print("GEMM: GFLOP/s of Eigen's product of N x N by N x {}, timed after each sample; share: of it\n",
               settings.batch);
  }
  std::vector<std::string> layers;
  std::ranges::copy_if(settings.cells, std::back_inserter(layers), is_whole_layer);
  if (!layers.empty()) {
    fmt::print(
        "{}: whole layers, with the product of {} inputs a step and the gradient of the inputs; "
        "cuDNN's by its fastest algorithm\n",
        fmt::join(layers, ", "), measured_input_size);
  }
  print_head(columns);
  Json results = Json::array();
  for (const Row& row : rows) {
    const auto measured = make_measured(settings, row, execution, rollout);
    results.push_back(measure(*measured, settings, execution, columns));
  }
  if (rollout) print_gains(results);
  if (!settings.json.empty()) {
    write_file_atomically(settings.json, json_text(results) + "\n", SymbolicLinks::replaced);
    fmt::print("\n{} results in {}\n", results.size(), settings.json);
  }
  return success;
}

}  // namespace

void add_bench(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand(
      "bench",
      "Time rollouts, the forming of Q or training steps; compare all methods, or cells on translation");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, bool rollout) {
    CLI::App* sub = command->add_subcommand(name, description);
    sub->option_defaults()->always_capture_default();
    const auto settings = std::make_shared<BenchSettings>();
    std::vector<std::string> names;
    for (const BenchCell& cell : bench_cells()) names.push_back(cell.name);
    if (rollout) {
      for (const BenchLayer& layer : bench_layers()) names.push_back(layer.name);
      if (has_cudnn) std::ranges::copy(names_of<CudnnLayer>(), std::back_inserter(names));
    }
    sub->add_option(
           "--cells", settings->cells,
           fmt::format("What to compare, with commas between: {}; left out: cwy, both householder "
                       "and free{}",
                       fmt::join(names, ", "), rollout && has_cudnn ? ", on a GPU cudnn-tanh as well" : ""))
        ->delimiter(',')
        ->default_str("")
        ->check(CLI::IsMember(names));
    sub->add_option("--hidden", settings->hidden, "State sizes N, with commas between")
        ->delimiter(',')
        ->transform(whole_number_in(1, Index{1} << 20));
    sub->add_option("--reflections", settings->reflections,
                    "Reflections L, with commas between; 0 for N, at most N")
        ->delimiter(',')
        ->transform(whole_number_in(0, Index{1} << 20));
    if (rollout) {
      sub->add_option("--batch", settings->batch, "Sequences B")
          ->transform(whole_number_in(1, Index{1} << 20));
      sub->add_option("--length", settings->length, "Steps T")->transform(whole_number_in(1, Index{1} << 30));
      add_value(*sub, "--activation", settings->activation, one_of(names_of<Activation>()));
    }
    sub->add_option("--samples", settings->samples,
                    "Timed runs; the table has their median; left out: 5, on a GPU 20")
        ->default_str("")
        ->transform(whole_number_in(1, 100000));
    // Q is formed in full precision whatever the recurrence computes in.
    rollout ? settings->machine.add_to(*sub) : settings->machine.add_device_to(*sub);
    sub->add_option("--json", settings->json, "File for all results with every sample");
    add_overwrite(*sub, settings->overwrite);
    sub->callback(
        [&chosen, settings, rollout] { chosen = [settings, rollout] { return bench(*settings, rollout); }; });
  };
  add("rollout", "The recurrence over a whole sequence, forward and backward", true);
  add("prepare", "Forming Q or its factors from the parameters, forward and backward", false);
  add_bench_train(*command, chosen);
  add_bench_delta_product(*command, chosen);
  add_bench_rank_one_chain(*command, chosen);
  add_bench_position_scores(*command, chosen);
  add_bench_translate(*command, chosen);
  add_compare(*command, chosen);
}

}  // namespace orthornn::program
