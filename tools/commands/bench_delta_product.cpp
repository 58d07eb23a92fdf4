#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "commands/field_options.hpp"
#include "commands/pass_table.hpp"
#include "commands/program.hpp"
#include "commands/recurrent_flops.hpp"
#include "orthornn/delta/delta_product.hpp"

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
  bool gated = false, inference = false;
  MachineOptions machine;
  PassTableOptions table;
};

/// The multiplications and additions that a form needs. Products with triangular matrices count half: that
/// the library multiplies by their zeros is its loss.
Flops flops_of(DeltaForm form, const BenchDeltaSettings& settings, Index factors) {
  const auto k = static_cast<double>(settings.key), v = static_cast<double>(settings.value),
             n = static_cast<double>(factors);
  const double tokens = static_cast<double>(settings.batch * settings.length * settings.heads);
  if (form == DeltaForm::recurrent) return recurrent_flops(tokens, k, v, n);
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
    queries_ = normal_tensor<T>({rows, h, k}, device, 1);
    keys_ = normal_tensor<T>({rows, factors, h, k}, device, 2);
    values_ = normal_tensor<T>({rows, factors, h, v}, device, 3);
    betas_ =
        normal_tensor<Number>({rows, factors, h}, device, 4, [](float x) { return 2 / (1 + std::exp(-x)); });
    if (settings.gated)
      log_decays_ =
          normal_tensor<Number>({rows, h}, device, 5, [](float x) { return -1 / (1 + std::exp(x)); });
    d_outputs_ = normal_tensor<T>({rows, h, v}, device, 6);
    outputs_ = Tensor<T>(d_outputs_.shape(), device);
    d_queries_ = Tensor<T>(queries_.shape(), device);
    d_keys_ = Tensor<T>(keys_.shape(), device);
    d_values_ = Tensor<T>(values_.shape(), device);
    d_betas_ = Tensor<Number>(betas_.shape(), device);
    d_log_decays_ = Tensor<Number>(log_decays_.shape(), device);
  }

  /// One form, to be timed while this lives.
  TimedPass training(const DeltaProductOptions& options) {
    return {device_,
            true,
            {.forward = [this, options] { forward(options); },
             .backward = [this, options] { backward(options); }}};
  }
  TimedPass inference(const DeltaProductOptions& options) {
    return {
        device_,
        true,
        {.forward = [this, options] { delta_product<T>(input(), layout_, options, outputs_, {}, saved_); },
         .backward = [] {}}};
  }

 private:
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
};

int bench_delta_product(BenchDeltaSettings& settings) {
  const Execution execution = settings.machine.apply(settings.batch);
  settings.chunk = chunk_that_runs(settings, execution);
  PassTable table(settings.table, execution, name_of(execution.precision), "K");
  fmt::print(
      "delta product{}: batch {}, {} tokens, {} heads, keys of {}, values of {}, chunks of at most {}\n",
      settings.gated ? " with decay" : "", settings.batch, settings.length, settings.heads, settings.key,
      settings.value, settings.chunk);
  if (settings.inference) fmt::print("without a backward, and without what it would read\n");
  table.print_head(fmt::format("{:>3} {:<10}", "n", "form"));
  const auto measure = [&]<class T>(MeasuredDeltaProduct<T>& measured, DeltaForm form, Index factors) {
    Json fields = {{"benchmark", "delta-product"}, {"form", name_of(form)},
                   {"householder", factors},       {"batch", settings.batch},
                   {"length", settings.length},    {"heads", settings.heads},
                   {"key", settings.key},          {"value", settings.value},
                   {"gated", settings.gated},      {"inference", settings.inference}};
    if (form == DeltaForm::chunked) fields["chunk"] = settings.chunk;
    const DeltaProductOptions options{
        .form = form, .unit_keys = true, .chunk = settings.chunk, .precision = execution.precision};
    Flops flops = flops_of(form, settings, factors);
    if (settings.inference) flops.backward = 0;
    table.time(settings.inference ? measured.inference(options) : measured.training(options), flops,
               product_rate<float>(execution.device, settings.key),
               fmt::format("{:>3} {:<10}", factors, name_of(form)), std::move(fields));
  };
  const auto measure_all = [&]<class T>(const T&) {
    for (const Index factors : settings.householder) {
      MeasuredDeltaProduct<T> measured(settings, factors, execution.device);
      for (const DeltaForm form : forms_of<T>(settings, execution.device, factors))
        measure(measured, form, factors);
    }
  };
  if (execution.precision == Precision::bf16) {
    measure_all(bfloat16());
  } else {
    measure_all(float());
  }
  table.finish();
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
      ->transform(whole_number_in(1, 64));
  add_size(*command, "--batch", settings->batch, "Sequences B", Index{1} << 20);
  add_size(*command, "--length", settings->length, "Tokens T", Index{1} << 30);
  add_size(*command, "--heads", settings->heads, "Heads H", 4096);
  add_size(*command, "--key", settings->key, "Size K of a key", 4096);
  add_size(*command, "--value", settings->value, "Size V of a value", 4096);
  command
      ->add_option("--chunk", settings->chunk,
                   "Micro-steps of a chunk at most; left out: 32, on a GPU 64 with bf16")
      ->default_str("")
      ->transform(whole_number_in(1, 4096));
  command->add_flag("--gated", settings->gated, "Decay the state at each token");
  command->add_flag("--inference", settings->inference, "Forward alone, without what a backward reads");
  settings->machine.add_precision_to(*command);
  settings->table.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return bench_delta_product(*settings); }; });
}

}  // namespace orthornn::program
