#include "bench/benchmark.hpp"

#include <fmt/format.h>

#include "commands/output_file.hpp"
#include "commands/standard_streams.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {

// Every benchmark is a file of this folder. It has its name here and in the list below.
Benchmark rollout_benchmark(), prepare_benchmark(), train_benchmark(), delta_product_benchmark(),
    rank_one_chain_benchmark(), position_scores_benchmark(), translate_benchmark(), compare_benchmark(),
    convergence_benchmark();

namespace {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> list = {
      rollout_benchmark(),       prepare_benchmark(),        train_benchmark(),
      delta_product_benchmark(), rank_one_chain_benchmark(), position_scores_benchmark(),
      translate_benchmark(),     compare_benchmark(),        convergence_benchmark()};
  return list;
}

}  // namespace

bool is_benchmark(const std::string& name) {
  return std::ranges::any_of(benchmarks(), [&](const Benchmark& known) { return known.name == name; });
}

void add_bench(CLI::App& program, Command& chosen) {
  CLI::App* bench = program.add_subcommand(
      "bench",
      "Time rollouts, the forming of Q or training steps; compare all methods, or cells on translation");
  bench->require_subcommand(1);
  for (const Benchmark& benchmark : benchmarks())
    benchmark.add_to(*bench->add_subcommand(benchmark.name, benchmark.help), chosen);
}

void ResultsFile::add_to(CLI::App& command) {
  add_value(command, "--json", path, "File for all results with every sample");
  add_overwrite(command, overwrite);
}

void ResultsFile::check() const {
  if (path.empty()) return;
  check_output(path, OutputKind::results, overwrite);
  go_on_without_output();
}

void ResultsFile::write(const Json& results) const {
  if (path.empty()) return;
  write_file_atomically(path, json_text(results) + "\n", SymbolicLinks::replaced);
  fmt::print("\nevery sample: {}\n", path);
}

void SamplingOptions::add_to(CLI::App& command) {
  CLI::Option* option =
      add_value(command, "--samples", samples, "Timed runs, of which the median counts", up_to(100000));
  if (samples == 0)
    option->default_str("")->description(option->get_description() + "; left out: 5, on a GPU 20");
  results.add_to(command);
}

void SamplingOptions::complete(Device device) {
  if (samples == 0) samples = device.is_cuda() ? 20 : 5;
  results.check();
}

}  // namespace orthornn::program
