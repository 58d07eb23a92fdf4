#include "orthornn/delta/delta_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include "bench/random_tensors.hpp"
#include "bench/sequence_function.hpp"
#include "bench/table.hpp"
#include "core/fields_json.hpp"

namespace orthornn::program {
namespace {

struct DeltaProductBenchmark {
  static constexpr const char* name = "delta-product";
  static constexpr const char* help =
      "DeltaProduct over whole sequences, recurrent and chunked, forward and backward";
  std::vector<Index> householder = {1, 2, 3, 4};
  Index batch = 1, length = 4096, heads = 4, key = 64, value = 64;
  Index chunk = 0;
  bool gated = false, inference = false;
  MachineOptions machine{.device = "cpu"};
  SamplingOptions sampling;

  static void fields(auto&& visit) {
    using Self = DeltaProductBenchmark;
    visit("householder", &Self::householder, up_to(64), "Factors n a token");
    visit("batch", &Self::batch, up_to(1 << 20), "Sequences B");
    visit("length", &Self::length, up_to(1 << 30), "Tokens T");
    visit("heads", &Self::heads, up_to(4096), "Heads H");
    visit("key", &Self::key, up_to(4096), "Size K of a key");
    visit("value", &Self::value, up_to(4096), "Size V of a value");
    visit("chunk", &Self::chunk, up_to(4096),
          "Factors of a chunk at most; left out: 32, on a GPU 64 with bf16");
    visit("gated", &Self::gated, domain::any, "Decay the state at each token");
    visit("inference", &Self::inference, domain::any, "Forward alone, without what a backward reads");
  }
  void add_to(CLI::App& command) {
    add_settings(command, *this);
    machine.add_precision_to(command);
    sampling.add_to(command);
  }
  int run();

  /// The multiplications and additions that a form needs. Products with triangular matrices count half: that
  /// the library multiplies by their zeros is its loss.
  double flops(DeltaForm form, Index factors) const {
    const auto k = static_cast<double>(key), v = static_cast<double>(value), n = static_cast<double>(factors);
    const double tokens = static_cast<double>(batch * length * heads);
    if (form == DeltaForm::recurrent) return recurrent_flops(tokens, k, v, n, !inference);
    // A chunk of C factors has t tokens, and no more than a sequence.
    const double t = static_cast<double>(std::clamp(chunk / factors, Index{1}, length)), c = t * n;
    const double triangle = c * c / 2, scores = c * t / 2;
    const double forward = triangle * k + scores * k + triangle * c / 3  // coupling, scores, inverse
                           + 2 * c * k * v + triangle * v                // from chunk to chunk
                           + scores * v + t * k * v;                     // outputs
    const double backward = scores * v + 2 * c * k * v + triangle * v + t * k * v  // from chunk to chunk
                            + scores * (v + 2 * k) + t * k * v                     // scores
                            + 3 * c * k * v + triangle * (v + 3 * k);              // state, coupling, errors
    return 2 * tokens / t * (inference ? forward : forward + backward);
  }
  /// Factors of a chunk: a GPU has no longer ones.
  Index chunk_that_runs(const Execution& execution) const {
    if (!execution.device.is_cuda()) return chunk == 0 ? DeltaProductOptions::cpu_chunk : chunk;
    const bool is_long = execution.precision == Precision::bf16 && key <= 128;
    const Index most = is_long ? DeltaProductOptions::gpu_chunk : DeltaProductOptions::gpu_chunk / 2;
    return chunk == 0 ? most : std::min(chunk, most);
  }
  /// The forms of these sizes that a device has for vectors of T.
  template <class T>
  std::vector<DeltaForm> forms(Device device, Index factors) const {
    if (std::is_same_v<T, bfloat16>) return {DeltaForm::chunked};
    constexpr Index longest_key = 256;
    const bool has_chunks = !device.is_cuda() || (has_chunked_form(device) && key <= longest_key &&
                                                  factors <= DeltaProductOptions::gpu_chunk / 2);
    if (!has_chunks) return {DeltaForm::recurrent};
    return {DeltaForm::recurrent, DeltaForm::chunked};
  }
  template <class T>
  int time_rows(const Execution& execution) const;
};

/// Inputs at random: keys of norm 1, betas from 0 to 2, decays from e^-1 to 1.
template <class T>
struct TimedDeltaProduct {
  using Number = DeltaNumber<T>;

  TimedDeltaProduct(const DeltaProductBenchmark& timed, Index factors, Device on)
      : settings(timed), n(factors), device(on) {
    if (settings.gated)
      log_decays =
          normal_tensor<Number>({rows, h}, device, 5, [](float x) { return -1 / (1 + std::exp(x)); });
    d_log_decays = Tensor<Number>(log_decays.shape(), device);
  }

  DeltaProductInput<T> input() const {
    return {.queries = queries, .keys = keys, .values = values, .betas = betas, .log_decays = log_decays};
  }

  const DeltaProductBenchmark& settings;
  Index n;
  Device device;
  TokenLayout layout = TokenLayout::time_major(settings.length, settings.batch);
  Index rows = layout.rows(), h = settings.heads, k = settings.key, v = settings.value;
  Tensor<T> queries = normal_tensor<T>({rows, h, k}, device, 1), d_queries = zeros_like(queries);
  Tensor<T> keys = normal_tensor<T>({rows, n, h, k}, device, 2), d_keys = zeros_like(keys);
  Tensor<T> values = normal_tensor<T>({rows, n, h, v}, device, 3), d_values = zeros_like(values);
  Tensor<Number> betas =
      normal_tensor<Number>({rows, n, h}, device, 4, [](float x) { return 2 / (1 + std::exp(-x)); });
  Tensor<Number> d_betas = zeros_like(betas), log_decays, d_log_decays;
  Tensor<T> d_outputs = normal_tensor<T>({rows, h, v}, device, 6), outputs = zeros_like(d_outputs);
  Saved saved{device};
};

template <class T>
Pass delta_product_pass(const std::shared_ptr<TimedDeltaProduct<T>>& x, const DeltaProductOptions& options,
                        bool inference) {
  if (inference) {
    return {.forward = [x, options] {
      delta_product<T>(x->input(), x->layout, options, x->outputs, {}, x->saved);
    }};
  }
  const auto forward = [x, options] {
    x->saved.clear();  // a forward that is timed alone has no backward
    delta_product_forward<T>(x->input(), x->layout, options, x->outputs, {}, x->saved);
  };
  const auto backward = [x, options] {
    delta_product_backward<T>(x->input(), x->layout, options,
                              {.d_outputs = x->d_outputs,
                               .d_queries = x->d_queries,
                               .d_keys = x->d_keys,
                               .d_values = x->d_values,
                               .d_betas = x->d_betas,
                               .d_log_decays = x->d_log_decays},
                              x->saved);
  };
  return {.forward = forward, .backward = backward};
}

template <class T>
int DeltaProductBenchmark::time_rows(const Execution& execution) const {
  BenchTable table(sampling, execution, name_of(execution.precision));
  fmt::print(
      "delta product{}: batch {}, {} tokens, {} heads, keys of {}, values of {}, chunks of at most {}\n",
      gated ? " with decay" : "", batch, length, heads, key, value, chunk);
  if (inference) fmt::print("without a backward, and without what it would read\n");
  table.begin({{"n", "/householder", 3, ".0f"}, {"form", "/form", 10}}, "K x K by K x 64 a thread");
  for (const Index factors : householder) {
    const auto timed = std::make_shared<TimedDeltaProduct<T>>(*this, factors, execution.device);
    for (const DeltaForm form : forms<T>(execution.device, factors)) {
      Json row = json_object(*this, "benchmark");
      row["form"] = name_of(form);
      row["householder"] = factors;
      if (form == DeltaForm::recurrent) row.erase("chunk");
      const DeltaProductOptions options{
          .form = form, .unit_keys = true, .chunk = chunk, .precision = execution.precision};
      table.time({.fields = row,
                  .pass = delta_product_pass(timed, options, inference),
                  .flops = flops(form, factors),
                  .reference = usual_product<float>(execution.device, key)});
    }
  }
  return table.finish();
}

int DeltaProductBenchmark::run() {
  const Execution execution = machine.apply(batch);
  chunk = chunk_that_runs(execution);
  return execution.precision == Precision::bf16 ? time_rows<bfloat16>(execution)
                                                : time_rows<float>(execution);
}

}  // namespace

Benchmark delta_product_benchmark() { return benchmark_of<DeltaProductBenchmark>(); }

}  // namespace orthornn::program
