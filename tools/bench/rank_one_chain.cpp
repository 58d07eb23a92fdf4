#include "orthornn/delta/rank_one_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/random_tensors.hpp"
#include "bench/sequence_function.hpp"
#include "bench/table.hpp"
#include "core/fields_json.hpp"
#include "orthornn/delta/delta_product.hpp"

namespace orthornn::program {
namespace {

struct RankOneChainBenchmark {
  static constexpr const char* name = "rank-one-chain";
  static constexpr const char* help =
      "Chains of rank-one factors, in chunks and factor by factor, forward and backward";
  Index batch = 1, length = 4096, heads = 4, size = 64, columns = 64;
  Index chunk = RankOneChainOptions().chunk;
  NumberType precision = NumberType::fp32;
  MachineOptions machine{.device = "cpu"};
  SamplingOptions sampling;

  static void fields(auto&& visit) {
    using Self = RankOneChainBenchmark;
    visit("batch", &Self::batch, up_to(1 << 20), "Sequences B");
    visit("length", &Self::length, up_to(1 << 30), "Factors T of a chain");
    visit("heads", &Self::heads, up_to(4096), "Heads H");
    visit("size", &Self::size, up_to(4096), "Size D of a factor's vectors");
    visit("columns", &Self::columns, up_to(4096), "Columns M of a state");
    visit("chunk", &Self::chunk, up_to(4096), "Factors of a chunk at most; on a GPU 32 at most");
    visit("precision", &Self::precision, domain::any, "Numbers: fp32 or fp64");
  }
  void add_to(CLI::App& command) {
    add_settings(command, *this);
    machine.add_device_to(command);
    sampling.add_to(command);
  }
  int run();

  double factors() const {
    return static_cast<double>(batch) * static_cast<double>(length) * static_cast<double>(heads);
  }
  /// Held at once, about: those of the tensors, and what a chunk's forward keeps and its backward adds.
  double numbers() const {
    const auto d = static_cast<double>(size), m = static_cast<double>(columns),
               c = static_cast<double>(std::min(chunk, length));
    return factors() * (3 * d + 4 * m + 4 + c + 2 * m + 2 * d * m / c);
  }
  /// What `rank_one_chain` needs, or the same product factor by factor. Products with triangular matrices
  /// count half: that the library multiplies by their zeros is its loss.
  double flops(DeltaForm form) const {
    const auto d = static_cast<double>(size), m = static_cast<double>(columns),
               c = static_cast<double>(std::min(chunk, length));
    if (form == DeltaForm::recurrent) return recurrent_flops(factors(), d, m, 1, true);
    const double triangle = c / 2;                                 // of each factor
    const double forward = triangle * d + triangle * c / 3         // coupling, inverse
                           + 2 * d * m + triangle * m;             // from chunk to chunk
    const double backward = 2 * d * m + triangle * m               // from chunk to chunk
                            + 2 * d * m + triangle * (m + 2 * d);  // vectors
    return 2 * factors() * (forward + backward);
  }
  template <class T>
  int time_rows(const Execution& execution) const;
};

/// [R, ..] as [R, 1, ..].
template <class T>
TensorView<T> of_one_factor(TensorView<T> x) {
  Shape shape{x.shape()[0], 1};
  for (int i = 1; i < x.shape().rank(); ++i) shape.append(x.shape()[i]);
  return x.reshaped(shape);
}

/// A chain of reflections I - 2 k k^T of random keys of norm 1. They keep the norm of the states, however
/// long the chain is. As a delta product it has the same keys, step sizes of 2 and values of 0.
template <class T>
struct ReflectionChain {
  ReflectionChain(const RankOneChainBenchmark& timed, Device on) : settings(timed), device(on) {}

  RankOneChainInput<T> chain_input() const {
    return {.left = keys, .right = keys, .left_scales = scales, .initial_states = initial_states};
  }
  DeltaProductInput<T> delta_input() const {
    return {.queries = keys,
            .keys = of_one_factor(keys.view()),
            .values = of_one_factor(values.view()),
            .betas = of_one_factor(betas.view()),
            .initial_states = initial_states};
  }

  const RankOneChainBenchmark& settings;
  Device device;
  RankOneChainOptions options{.chunk = settings.chunk};
  TokenLayout layout = TokenLayout::time_major(settings.length, settings.batch);
  Index rows = layout.rows(), h = settings.heads, d = settings.size, m = settings.columns;
  Tensor<T> keys = unit_vectors<T>({rows, h, d}, device, 1);
  Tensor<T> d_left = zeros_like(keys), d_right = zeros_like(keys);
  Tensor<T> scales = filled_tensor<T>({rows, h}, device, -2), betas = filled_tensor<T>({rows, h}, device, 2);
  Tensor<T> d_scales = zeros_like(scales);
  Tensor<T> initial_states = normal_tensor<T>({settings.batch, h, d, m}, device, 2);
  Tensor<T> final_states = zeros_like(initial_states), d_initial_states = zeros_like(initial_states);
  Tensor<T> d_outputs = normal_tensor<T>({rows, h, m}, device, 3), outputs = zeros_like(d_outputs);
  Tensor<T> values = zeros_like(d_outputs), d_values = zeros_like(d_outputs);
  Saved saved{device};
};

template <class T>
Pass chain_pass(const std::shared_ptr<ReflectionChain<T>>& x) {
  const auto forward = [x] {
    x->saved.clear();  // a forward that is timed alone has no backward
    rank_one_chain_forward<T>(x->chain_input(), x->layout, x->options, x->outputs, x->final_states, x->saved);
  };
  const auto backward = [x] {
    rank_one_chain_backward<T>(x->chain_input(), x->layout, x->options,
                               {.d_outputs = x->d_outputs,
                                .d_left = x->d_left,
                                .d_right = x->d_right,
                                .d_left_scales = x->d_scales,
                                .d_initial_states = x->d_initial_states},
                               x->saved);
  };
  return {.forward = forward, .backward = backward};
}

template <class T>
Pass recurrent_chain_pass(const std::shared_ptr<ReflectionChain<T>>& x) {
  const DeltaProductOptions options{.form = DeltaForm::recurrent};
  const auto forward = [x, options] {
    x->saved.clear();
    delta_product_forward<T>(x->delta_input(), x->layout, options, x->outputs, x->final_states, x->saved);
  };
  const auto backward = [x, options] {
    delta_product_backward<T>(x->delta_input(), x->layout, options,
                              {.d_outputs = x->d_outputs,
                               .d_queries = x->d_left,
                               .d_keys = of_one_factor(x->d_right.view()),
                               .d_values = of_one_factor(x->d_values.view()),
                               .d_betas = of_one_factor(x->d_scales.view()),
                               .d_initial_states = x->d_initial_states},
                              x->saved);
  };
  return {.forward = forward, .backward = backward};
}

template <class T>
int RankOneChainBenchmark::time_rows(const Execution& execution) const {
  const Device device = execution.device;
  const bool has_recurrent = !device.is_cuda() || size <= DeltaProductOptions::gpu_recurrent_key;
  BenchTable table(sampling, execution, name_of(precision));
  fmt::print("chain of reflections: batch {}, {} factors, {} heads, vectors of {}, {} columns\n", batch,
             length, heads, size, columns);
  fmt::print("chunked: rank_one_chain, with chunks of at most {} factors\n", chunk);
  fmt::print("recurrent: {}\n", has_recurrent
                                    ? "the same product factor by factor, by delta_product"
                                    : fmt::format("left out, a GPU takes vectors of {} numbers at most",
                                                  DeltaProductOptions::gpu_recurrent_key));
  table.begin({{"form", "/form", 10}}, "D x D by D x 64 a thread");
  const auto chain = std::make_shared<ReflectionChain<T>>(*this, device);
  const auto time = [&](DeltaForm form, const Pass& pass) {
    Json row = json_object(*this, "benchmark");
    row["form"] = name_of(form);
    if (form == DeltaForm::recurrent) row.erase("chunk");
    table.time(
        {.fields = row, .pass = pass, .flops = flops(form), .reference = usual_product<T>(device, size)});
  };
  if (has_recurrent) time(DeltaForm::recurrent, recurrent_chain_pass(chain));
  time(DeltaForm::chunked, chain_pass(chain));
  return table.finish();
}

int RankOneChainBenchmark::run() {
  const Execution execution = execution_in_chunks(*this, RankOneChainOptions().chunk);
  return precision == NumberType::fp64 ? time_rows<double>(execution) : time_rows<float>(execution);
}

}  // namespace

Benchmark rank_one_chain_benchmark() { return benchmark_of<RankOneChainBenchmark>(); }

}  // namespace orthornn::program
