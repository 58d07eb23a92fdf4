#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands/eigen_product.hpp"
#include "commands/field_options.hpp"
#include "commands/machine.hpp"
#include "commands/measured.hpp"
#include "commands/program.hpp"
#include "orthornn/delta/delta_product.hpp"
#include "orthornn/io/atomic_file.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

struct BenchDeltaSettings {
  std::vector<Index> householder = {1, 2, 3, 4};
  Index batch = 1;
  Index length = 4096;
  Index heads = 4;
  Index key = 64;
  Index value = 64;
  Index chunk = DeltaProductOptions().chunk;
  bool gated = false;
  int samples = 0;
  MachineOptions machine;
  std::string json;
};

/// Arithmetic of a forward and of a backward.
struct Flops {
  double forward, backward;
};

/// The multiplications and additions that a form needs. Products with triangular matrices count half: that
/// the library multiplies by their zeros is its loss.
Flops flops_of(DeltaForm form, const BenchDeltaSettings& settings, Index factors) {
  const auto k = static_cast<double>(settings.key), v = static_cast<double>(settings.value),
             n = static_cast<double>(factors);
  const double tokens = static_cast<double>(settings.batch * settings.length * settings.heads);
  if (form == DeltaForm::recurrent)
    return {.forward = 2 * tokens * k * v * (2 * n + 1), .backward = 2 * tokens * k * v * (7 * n + 2)};
  // A chunk of C micro-steps has t tokens, and no more than a sequence.
  const double t = static_cast<double>(std::clamp(settings.chunk / factors, Index{1}, settings.length)),
               c = t * n;
  const double triangle = c * c / 2, scores = c * t / 2;
  const double forward = triangle * k + scores * k + triangle * c / 3            // coupling, scores, inverse
                         + 2 * c * k * v + triangle * v                          // from chunk to chunk
                         + scores * v + t * k * v;                               // outputs
  const double backward = scores * v + 2 * c * k * v + triangle * v + t * k * v  // from chunk to chunk
                          + scores * (v + 2 * k) + t * k * v                     // scores
                          + 3 * c * k * v + triangle * (v + 3 * k);              // state, coupling, errors
  return {.forward = 2 * tokens / t * forward, .backward = 2 * tokens / t * backward};
}

/// Inputs at random: keys of norm 1, betas from 0 to 2, decays from e^-1 to 1.
class MeasuredDeltaProduct {
 public:
  MeasuredDeltaProduct(const BenchDeltaSettings& settings, Index factors)
      : layout_(TokenLayout::time_major(settings.length, settings.batch)) {
    const Index rows = layout_.rows(), h = settings.heads, k = settings.key, v = settings.value;
    const auto draw = [&](Tensor<float>& x, const Shape& shape) {
      x.resize(shape);
      fill_normal(x, stream_++);
    };
    draw(queries_, {rows, h, k});
    draw(keys_, {rows, factors, h, k});
    draw(values_, {rows, factors, h, v});
    draw(betas_, {rows, factors, h});
    for (float& beta : betas_) beta = 2 / (1 + std::exp(-beta));
    if (settings.gated) {
      draw(log_decays_, {rows, h});
      for (float& a : log_decays_) a = -1 / (1 + std::exp(a));
    }
    draw(d_outputs_, {rows, h, v});
    outputs_.resize(d_outputs_.shape());
    d_queries_.resize(queries_.shape());
    d_keys_.resize(keys_.shape());
    d_values_.resize(values_.shape());
    d_betas_.resize(betas_.shape());
    d_log_decays_.resize(log_decays_.shape());
  }

  Sample run(const DeltaProductOptions& options) {
    const DeltaProductInput<float> input{
        .queries = queries_, .keys = keys_, .values = values_, .betas = betas_, .log_decays = log_decays_};
    const DeltaProductGradients<float> gradients{.d_outputs = d_outputs_,
                                                 .d_queries = d_queries_,
                                                 .d_keys = d_keys_,
                                                 .d_values = d_values_,
                                                 .d_betas = d_betas_,
                                                 .d_log_decays = d_log_decays_};
    Sample sample{};
    sample.forward_ms = milliseconds(
        Device::cpu(), [&] { delta_product_forward<float>(input, layout_, options, outputs_, {}, saved_); });
    sample.backward_ms = milliseconds(
        Device::cpu(), [&] { delta_product_backward<float>(input, layout_, options, gradients, saved_); });
    return sample;
  }

 private:
  TokenLayout layout_;
  Tensor<float> queries_, keys_, values_, betas_, log_decays_, d_outputs_, outputs_;
  Tensor<float> d_queries_, d_keys_, d_values_, d_betas_, d_log_decays_;
  Saved saved_{Device::cpu()};
  std::uint64_t stream_ = 1;
};

/// Times one form and prints its row.
Json measure(MeasuredDeltaProduct& measured, const BenchDeltaSettings& settings, const Execution& execution,
             DeltaForm form, Index factors) {
  const DeltaProductOptions options{.form = form, .unit_keys = true, .chunk = settings.chunk};
  EigenProduct product(settings.key, 64 * Index{thread_count()});
  Samples samples;
  std::vector<double> gemm;
  measured.run(options);
  product.gflops();
  for (int i = 0; i < settings.samples; ++i) {
    samples.add(measured.run(options));
    // Right after each sample, so that both see the same machine when its speed drifts.
    gemm.push_back(product.gflops());
  }
  const Flops flops = flops_of(form, settings, factors);
  const double rate = (flops.forward + flops.backward) / median(samples.total) * 1e-6;
  Json json = {{"benchmark", "delta-product"}, {"form", name_of(form)},     {"householder", factors},
               {"batch", settings.batch},      {"length", settings.length}, {"heads", settings.heads},
               {"key", settings.key},          {"value", settings.value},   {"gated", settings.gated}};
  if (form == DeltaForm::chunked) json["chunk"] = settings.chunk;
  json.update(machine_fields(execution));
  samples.add_to(json);
  json["gflop"] = (flops.forward + flops.backward) * 1e-9;
  json["gflops"] = rate;
  json["gemm_gflops"] = median(gemm);
  json["gemm_samples_gflops"] = gemm;
  fmt::print("{:>3} {:<10} {:>11.3f} {:>11.3f} {:>11.3f} {:>8.1f} {:>8.1f} {:>6.0f} %\n", factors,
             name_of(form), median(samples.forward), median(samples.backward), median(samples.total), rate,
             median(gemm), 100 * rate / median(gemm));
  std::fflush(stdout);
  return json;
}

int bench_delta_product(BenchDeltaSettings& settings) {
  const Execution execution = settings.machine.apply(settings.batch);
  if (execution.device.is_cuda())
    throw UsageError("bench delta-product runs on the CPU alone, and --device asks for a GPU; leave it out");
  if (settings.samples == 0) settings.samples = default_samples(execution.device);
  if (!settings.json.empty()) check_place(settings.json);
  fmt::print(
      "delta product{}: batch {}, {} tokens, {} heads, keys of {}, values of {}, chunks of at most {}\n",
      settings.gated ? " with decay" : "", settings.batch, settings.length, settings.heads, settings.key,
      settings.value, settings.chunk);
  fmt::print("{}, {} threads, medians of {} after a warm-up\n", machine_text(execution), thread_count(),
             settings.samples);
  fmt::print(
      "GFLOP/s: of the arithmetic that the form needs; GEMM: of Eigen's product of K x K by K x 64 a thread, "
      "timed "
      "after each sample\n");
  fmt::print("\n{:>3} {:<10} {:>11} {:>11} {:>11} {:>8} {:>8} {:>8}\n", "n", "form", "forward ms",
             "backward ms", "total ms", "GFLOP/s", "GEMM", "share");
  Json results = Json::array();
  for (const Index factors : settings.householder) {
    MeasuredDeltaProduct measured(settings, factors);
    for (const DeltaForm form : {DeltaForm::recurrent, DeltaForm::chunked})
      results.push_back(measure(measured, settings, execution, form, factors));
  }
  if (!settings.json.empty()) {
    write_file_atomically(settings.json, results.dump(2) + "\n");
    fmt::print("\n{} results in {}\n", results.size(), settings.json);
  }
  return success;
}

}  // namespace

void add_bench_delta_product(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "delta-product", "DeltaProduct over whole sequences, recurrent and chunked, forward and backward");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<BenchDeltaSettings>();
  settings->machine.device = "cpu";
  command->add_option("--householder", settings->householder, "Micro-steps n a token, with commas between")
      ->delimiter(',')
      ->check(whole_number_in(1, 64));
  const auto add_size = [&](const char* name, Index& size, const char* help, Index largest) {
    command->add_option(name, size, help)->check(whole_number_in(1, largest));
  };
  add_size("--batch", settings->batch, "Sequences B", Index{1} << 20);
  add_size("--length", settings->length, "Tokens T", Index{1} << 30);
  add_size("--heads", settings->heads, "Heads H", 4096);
  add_size("--key", settings->key, "Size K of a key", 4096);
  add_size("--value", settings->value, "Size V of a value", 4096);
  add_size("--chunk", settings->chunk, "Micro-steps of a chunk", 4096);
  command->add_flag("--gated", settings->gated, "Decay the state at each token")->default_str("false");
  command->add_option("--samples", settings->samples, "Timed runs; the table has their median; left out: 5")
      ->default_str("")
      ->check(whole_number_in(1, 100000));
  settings->machine.add_device_to(*command);
  command->add_option("--json", settings->json, "File for all results with every sample");
  command->callback([&chosen, settings] { chosen = [settings] { return bench_delta_product(*settings); }; });
}

}  // namespace orthornn::program
