// bench rollout and bench prepare: cells at several sizes, over whole sequences and without.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/bench_cells.hpp"
#include "bench/eigen_product.hpp"
#include "bench/table.hpp"

namespace orthornn::program {
namespace {

/// Which cells are timed, and at which sizes.
struct CellSettings {
  std::vector<std::string> cells = {};
  std::vector<Index> hidden = {128, 190, 512};
  std::vector<std::string> reflections = {"N"};
  MachineOptions machine = {};
  SamplingOptions sampling = {};

  static void fields(auto&& visit) {
    visit("cells", &CellSettings::cells, domain::any, "What to compare");
    visit("hidden", &CellSettings::hidden, up_to(1 << 20), "State sizes N");
    visit("reflections", &CellSettings::reflections, domain::any,
          "Reflections L: N or 0, shares as N/2, numbers up to N");
  }
  /// Says which cells there are: whole layers among them or not.
  void add_names(CLI::App& command, bool whole_layers) {
    std::vector<std::string> names;
    for (const BenchCell& cell : bench_cells()) {
      if (whole_layers || !cell.is_whole_layer()) names.push_back(cell.name);
    }
    command.get_option("--reflections")->check(reflection_count());
    command.get_option("--cells")
        ->check(CLI::IsMember(names))
        ->description(fmt::format(
            "What to compare, with commas between: {}; left out: cwy, both householder and free{}",
            fmt::join(names, ", "), whole_layers && has_cudnn ? ", on a GPU cudnn-tanh as well" : ""));
  }
  std::vector<SizedCell> sized(bool with_cudnn = false) const {
    std::vector<std::string> usual = {"cwy", "householder", "householder-rank-one", "free"};
    if (with_cudnn) usual.push_back("cudnn-tanh");
    return sized_cells(cells.empty() ? usual : cells, hidden, reflections, AboveN::is_refused);
  }
};

const std::vector<TableColumn> cell_columns = {{"cell", "/cell", 21},
                                               {"form", "/form", 10},
                                               {"N", "/hidden", 5, ".0f"},
                                               {"L", "/reflections", 5, ".0f"}};

struct PrepareBenchmark : CellSettings {
  static constexpr const char* name = "prepare";
  static constexpr const char* help = "Forming Q or its factors from the parameters, forward and backward";

  void add_to(CLI::App& command) {
    add_settings(command, *this);
    add_names(command, false);
    // Q is formed in full precision whatever the recurrence computes in.
    machine.add_device_to(command);
    sampling.add_to(command);
  }
  int run();
};

int PrepareBenchmark::run() {
  const Execution execution = machine.apply();
  BenchTable table(sampling, execution, name_of(execution.precision));
  const std::vector<SizedCell> all = sized();
  fmt::print("prepare: forming Q or its factors, then the parameters' gradient from that of Q\n");
  table.begin(cell_columns, "");
  for (const SizedCell& one : all) {
    Measured measured = measured_construction(one, ConstructionEnd::factors, execution);
    measured.fields.update({{"benchmark", name}, {"cell", one.cell.name}, {"batch", 0}, {"length", 0}});
    table.time(measured);
  }
  return table.finish();
}

struct RolloutBenchmark : CellSettings {
  static constexpr const char* name = "rollout";
  static constexpr const char* help = "The recurrence over a whole sequence, forward and backward";
  Index batch = 128, length = 100;
  Activation activation = Activation::modrelu;

  static void fields(auto&& visit) {
    CellSettings::fields(visit);
    visit("batch", &RolloutBenchmark::batch, up_to(1 << 20), "Sequences B");
    visit("length", &RolloutBenchmark::length, up_to(1 << 30), "Steps T");
    visit("activation", &RolloutBenchmark::activation, domain::any, one_of(names_of<Activation>()).c_str());
  }
  void add_to(CLI::App& command) {
    add_settings(command, *this);
    add_names(command, true);
    machine.add_to(command);
    sampling.add_to(command);
  }
  int run();
  void print_head(const std::vector<SizedCell>& timed) const;
};

void RolloutBenchmark::print_head(const std::vector<SizedCell>& timed) const {
  fmt::print(
      "rollout: prepare + forward, then backward + gradient of the parameters; batch {}, {} steps, {}\n",
      batch, length, name_of(activation));
  std::vector<std::string> layers;
  for (const SizedCell& one : timed) {
    if (one.cell.is_whole_layer()) layers.push_back(one.cell.name);
  }
  if (layers.empty()) return;
  fmt::print(
      "{}: whole layers, with the product of {} inputs a step and the gradient of the inputs; "
      "cuDNN's by its fastest algorithm\n",
      fmt::join(each_once(layers), ", "), measured_input_size);
}

/// Wherever both were timed at one size.
void print_gains(const Json& gains) {
  if (!gains.empty()) fmt::print("\n");
  for (const Json& gain : gains) {
    const double factor = gain["factor"];
    fmt::print("CWY is {:.2f} times {} than {} (N = {}, L = {})\n", std::max(factor, 1 / factor),
               factor >= 1 ? "faster" : "slower", bench_cell(gain["over"].get<std::string>()).title,
               gain["hidden"].get<Index>(), gain["reflections"].get<Index>());
  }
}

int RolloutBenchmark::run() {
  const Execution execution = machine.apply(batch, length);
  const Device device = execution.device;
  BenchTable table(sampling, execution, name_of(execution.precision));
  const std::vector<SizedCell> all = sized(has_cudnn && device.is_cuda());
  const SequenceSizes sizes{length, batch, activation};
  for (const SizedCell& one : all) check_rollout(one, sizes, execution);
  print_head(all);
  std::vector<TableColumn> columns = cell_columns, more = {{"|I-A'A|", "/orthogonality_error", 8, ".1e"}};
  if (device.is_cuda()) {
    columns.insert(columns.begin() + 2, {"rollout", "/rollout", 23});
    // Most of a step is synchronization.
    more.insert(more.begin(), {"us/step", "/step_us", 8, ".3f"});
  }
  table.begin(columns, fmt::format("N x N by N x {}", batch), more);
  for (const SizedCell& one : all) {
    Measured measured = measured_rollout(one, sizes, execution);
    measured.fields.update(
        {{"benchmark", name}, {"cell", one.cell.name}, {"batch", batch}, {"length", length}});
    measured.steps = length;
    measured.reference = eigen_product<float>(device, one.hidden, batch);
    table.time(measured);
  }
  print_gains(gains_of_cwy(table.rows(), "cell"));
  return table.finish();
}

}  // namespace

Benchmark prepare_benchmark() { return benchmark_of<PrepareBenchmark>(); }
Benchmark rollout_benchmark() { return benchmark_of<RolloutBenchmark>(); }

}  // namespace orthornn::program
