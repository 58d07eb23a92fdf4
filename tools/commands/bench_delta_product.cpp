#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <vector>

#include "commands/eigen_product.hpp"
#include "commands/field_options.hpp"
#include "commands/machine.hpp"
#include "commands/program.hpp"
#include "commands/timed_pass.hpp"
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
  Index chunk = 0;
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

/// Micro-steps of a chunk that runs: a GPU has no longer ones.
Index chunk_that_runs(const BenchDeltaSettings& settings, const Execution& execution) {
  if (!execution.device.is_cuda())
    return settings.chunk == 0 ? DeltaProductOptions::cpu_chunk : settings.chunk;
  const bool is_long = execution.precision == Precision::bf16 && settings.key <= 128;
  const Index most = is_long ? DeltaProductOptions::gpu_chunk : DeltaProductOptions::gpu_chunk / 2;
  return settings.chunk == 0 ? most : std::min(settings.chunk, most);
}

/// The forms of these sizes that a device has for vectors of T.
template <class T>
std::vector<DeltaForm> forms_of(const BenchDeltaSettings& settings, Device device, Index factors) {
  if (std::is_same_v<T, bfloat16>) return {DeltaForm::chunked};
  constexpr Index longest_key = 256;
  const bool has_chunks = !device.is_cuda() || (has_chunked_form(device) && settings.key <= longest_key &&
                                                factors <= DeltaProductOptions::gpu_chunk / 2);
  if (!has_chunks) return {DeltaForm::recurrent};
  return {DeltaForm::recurrent, DeltaForm::chunked};
}

/// Inputs at random: keys of norm 1, betas from 0 to 2, decays from e^-1 to 1.
template <class T>
class MeasuredDeltaProduct {
 public:
  using Number = DeltaNumber<T>;

  MeasuredDeltaProduct(const BenchDeltaSettings& settings, Index factors, Device device)
      : device_(device), layout_(TokenLayout::time_major(settings.length, settings.batch)), saved_(device) {
    const Index rows = layout_.rows(), h = settings.heads, k = settings.key, v = settings.value;
    draw(queries_, {rows, h, k});
    draw(keys_, {rows, factors, h, k});
    draw(values_, {rows, factors, h, v});
    draw(betas_, {rows, factors, h}, [](float x) { return 2 / (1 + std::exp(-x)); });
    if (settings.gated) draw(log_decays_, {rows, h}, [](float x) { return -1 / (1 + std::exp(x)); });
    draw(d_outputs_, {rows, h, v});
    outputs_ = Tensor<T>(d_outputs_.shape(), device);
    d_queries_ = Tensor<T>(queries_.shape(), device);
    d_keys_ = Tensor<T>(keys_.shape(), device);
    d_values_ = Tensor<T>(values_.shape(), device);
    d_betas_ = Tensor<Number>(betas_.shape(), device);
    d_log_decays_ = Tensor<Number>(log_decays_.shape(), device);
  }

  /// One form, to be timed while this lives.
  TimedPass pass(const DeltaProductOptions& options) {
    return {device_,
            true,
            {.forward = [this, options] { forward(options); },
             .backward = [this, options] { backward(options); }}};
  }

 private:
  template <class U>
  void draw(
      Tensor<U>& x, const Shape& shape, float (*change)(float) = [](float number) { return number; }) {
    Tensor<float> drawn(shape);
    fill_normal(drawn, stream_++);
    Tensor<U> changed(shape);
    std::transform(drawn.begin(), drawn.end(), changed.begin(),
                   [&](float number) { return U(change(number)); });
    x = changed.copy(device_);
  }

  DeltaProductInput<T> input() const {
    return {
        .queries = queries_, .keys = keys_, .values = values_, .betas = betas_, .log_decays = log_decays_};
  }
  void forward(const DeltaProductOptions& options) {
    saved_.clear();  // a forward that is timed alone has no backward
    delta_product_forward<T>(input(), layout_, options, outputs_, {}, saved_);
  }
  void backward(const DeltaProductOptions& options) {
    delta_product_backward<T>(input(), layout_, options,
                              {.d_outputs = d_outputs_,
                               .d_queries = d_queries_,
                               .d_keys = d_keys_,
                               .d_values = d_values_,
                               .d_betas = d_betas_,
                               .d_log_decays = d_log_decays_},
                              saved_);
  }

  Device device_;
  TokenLayout layout_;
  Tensor<T> queries_, keys_, values_, d_outputs_, outputs_, d_queries_, d_keys_, d_values_;
  Tensor<Number> betas_, log_decays_, d_betas_, d_log_decays_;
  Saved saved_;
  std::uint64_t stream_ = 1;
};

/// One line of the table.
template <class T>
Json measure(MeasuredDeltaProduct<T>& measured, const BenchDeltaSettings& settings,
             const Execution& execution, DeltaForm form, Index factors) {
  const DeltaProductOptions options{
      .form = form, .unit_keys = true, .chunk = settings.chunk, .precision = execution.precision};
  TimedPass pass = measured.pass(options);
  // Beside a GPU, the product of a CPU would say nothing.
  std::optional<EigenProduct> product;
  if (!execution.device.is_cuda()) product.emplace(settings.key, 64 * Index{thread_count()});
  Samples samples;
  std::vector<double> gemm;
  for (int i = 0; i < warm_up_runs(execution.device); ++i) pass.run();
  if (product) product->gflops();
  for (int i = 0; i < settings.samples; ++i) {
    samples.add(pass.run());
    // Right after each sample, so that both see the same machine when its speed drifts.
    if (product) gemm.push_back(product->gflops());
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
  fmt::print("{:>3} {:<10} {:>11.3f} {:>11.3f} {:>11.3f} {:>8.1f}", factors, name_of(form),
             median(samples.forward), median(samples.backward), median(samples.total), rate);
  if (product) {
    json["gemm_gflops"] = median(gemm);
    json["gemm_samples_gflops"] = gemm;
    fmt::print(" {:>8.1f} {:>6.0f} %", median(gemm), 100 * rate / median(gemm));
  }
  fmt::print("\n");
  std::fflush(stdout);
  return json;
}

int bench_delta_product(BenchDeltaSettings& settings) {
  const Execution execution = settings.machine.apply(settings.batch);
  const bool gpu = execution.device.is_cuda();
  if (settings.samples == 0) settings.samples = default_samples(execution.device);
  settings.chunk = chunk_that_runs(settings, execution);
  if (!settings.json.empty()) check_place(settings.json);
  fmt::print(
      "delta product{}: batch {}, {} tokens, {} heads, keys of {}, values of {}, chunks of at most {}\n",
      settings.gated ? " with decay" : "", settings.batch, settings.length, settings.heads, settings.key,
      settings.value, settings.chunk);
  fmt::print("{}, {} threads, medians of {} after a warm-up\n", machine_text(execution), thread_count(),
             settings.samples);
  fmt::print("GFLOP/s: of the arithmetic that the form needs\n");
  if (!gpu) fmt::print("GEMM: of Eigen's product of K x K by K x 64 a thread, timed after each sample\n");
  fmt::print("\n{:>3} {:<10} {:>11} {:>11} {:>11} {:>8}", "n", "form", "forward ms", "backward ms",
             "total ms", "GFLOP/s");
  if (!gpu) fmt::print(" {:>8} {:>8}", "GEMM", "share");
  fmt::print("\n");
  Json results = Json::array();
  const auto measure_all = [&]<class T>(const T&) {
    for (const Index factors : settings.householder) {
      MeasuredDeltaProduct<T> measured(settings, factors, execution.device);
      for (const DeltaForm form : forms_of<T>(settings, execution.device, factors))
        results.push_back(measure(measured, settings, execution, form, factors));
    }
  };
  if (execution.precision == Precision::bf16) {
    measure_all(bfloat16());
  } else {
    measure_all(float());
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
  command
      ->add_option("--chunk", settings->chunk,
                   "Micro-steps of a chunk at most; left out: 32, on a GPU 64 with bf16")
      ->default_str("")
      ->check(whole_number_in(1, 4096));
  command->add_flag("--gated", settings->gated, "Decay the state at each token")->default_str("false");
  command
      ->add_option("--samples", settings->samples,
                   "Timed runs; the table has their median; left out: 5, on a GPU 20")
      ->default_str("")
      ->check(whole_number_in(1, 100000));
  settings->machine.add_precision_to(*command);
  command->add_option("--json", settings->json, "File for all results with every sample");
  command->callback([&chosen, settings] { chosen = [settings] { return bench_delta_product(*settings); }; });
}

}  // namespace orthornn::program
