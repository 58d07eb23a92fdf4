#include "commands/pass_table.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/standard_streams.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {

using Json = nlohmann::ordered_json;

void PassTableOptions::add_to(CLI::App& command) {
  command
      .add_option("--samples", samples, "Timed runs; the table has their median; left out: 5, on a GPU 20")
      ->default_str("")
      ->transform(whole_number_in(1, 100000));
  command.add_option("--json", json, "File for all results with every sample");
  add_overwrite(command, overwrite);
}

void add_size(CLI::App& command, const char* flag, Index& size, const char* help, Index largest) {
  command.add_option(flag, size, help)->transform(whole_number_in(1, largest));
}

PassTable::PassTable(const PassTableOptions& options, const Execution& execution, std::string precision,
                     const char* n)
    : options_(options), execution_(execution), precision_(std::move(precision)), n_(n) {
  if (options_.samples == 0) options_.samples = default_samples(execution.device);
  if (!options_.json.empty()) {
    check_output(options_.json, OutputKind::results, options_.overwrite);
    go_on_without_output();
  }
}

void PassTable::print_head(const std::string& title) const {
  const bool gpu = execution_.device.is_cuda();
  fmt::print("{}, {} threads, medians of {} after a warm-up\n", machine_text(execution_.device, precision_),
             thread_count(), options_.samples);
  fmt::print("GFLOP/s: of the arithmetic that the form needs\n");
  if (!gpu)
    fmt::print("GEMM: of Eigen's product of {0} x {0} by {0} x 64 a thread, timed after each sample\n", n_);
  fmt::print("\n{} {:>11} {:>11} {:>11} {:>8}", title, "forward ms", "backward ms", "total ms", "GFLOP/s");
  if (!gpu) fmt::print(" {:>8} {:>8}", "GEMM", "share");
  fmt::print("\n");
}

void PassTable::time(TimedPass pass, const Flops& flops, const std::function<double()>& rate,
                     const std::string& row, Json fields) {
  Samples samples;
  std::vector<double> gemm;
  for (int i = 0; i < warm_up_runs(execution_.device); ++i) pass.run();
  if (rate) rate();
  for (int i = 0; i < options_.samples; ++i) {
    samples.add(pass.run());
    // Right after each sample, so that both see the same machine when its speed drifts.
    if (rate) gemm.push_back(rate());
  }
  const double all = flops.forward + flops.backward, reached = all / median(samples.total) * 1e-6;
  fields.update(machine_fields(execution_));
  fields["precision"] = precision_;
  samples.add_to(fields);
  fields["gflop"] = all * 1e-9;
  fields["gflops"] = reached;
  fmt::print("{} {:>11.3f} {:>11.3f} {:>11.3f} {:>8.1f}", row, median(samples.forward),
             median(samples.backward), median(samples.total), reached);
  if (rate) {
    fields["gemm_gflops"] = median(gemm);
    fields["gemm_samples_gflops"] = gemm;
    fmt::print(" {:>8.1f} {:>6.0f} %", median(gemm), 100 * reached / median(gemm));
  }
  fmt::print("\n");
  std::fflush(stdout);
  results_.push_back(std::move(fields));
}

void PassTable::finish() const {
  if (options_.json.empty()) return;
  write_file_atomically(options_.json, json_text(results_) + "\n", SymbolicLinks::replaced);
  fmt::print("\n{} results in {}\n", results_.size(), options_.json);
}

}  // namespace orthornn::program
