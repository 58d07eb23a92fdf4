#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands/bench_in_chunks.hpp"
#include "commands/field_options.hpp"
#include "commands/recurrent_flops.hpp"
#include "orthornn/delta/delta_product.hpp"
#include "orthornn/delta/rank_one_chain.hpp"

namespace orthornn::program {
namespace {

using Json = nlohmann::ordered_json;

struct BenchChainSettings {
  Index batch = 1;
  Index length = 4096;
  Index heads = 4;
  Index size = 64;
  Index columns = 64;
  Index chunk = RankOneChainOptions().chunk;
  NumberType precision = NumberType::fp32;
  MachineOptions machine;
  PassTableOptions table;

  double factors() const {
    return static_cast<double>(batch) * static_cast<double>(length) * static_cast<double>(heads);
  }
  /// Held at once, about: those of the tensors, and what a chunk's forward keeps and its backward adds.
  double numbers() const {
    const auto d = static_cast<double>(size), m = static_cast<double>(columns),
               c = static_cast<double>(std::min(chunk, length));
    return factors() * (3 * d + 4 * m + 4 + c + 2 * m + 2 * d * m / c);
  }
};

/// What rank_one_chain needs. Products with triangular matrices count half: that the library multiplies by
/// their zeros is its loss.
Flops flops_of(const BenchChainSettings& settings) {
  const auto d = static_cast<double>(settings.size), m = static_cast<double>(settings.columns),
             c = static_cast<double>(std::min(settings.chunk, settings.length));
  const double triangle = c / 2;                                 // of each factor
  const double forward = triangle * d + triangle * c / 3         // coupling, inverse
                         + 2 * d * m + triangle * m;             // from chunk to chunk
  const double backward = 2 * d * m + triangle * m               // from chunk to chunk
                          + 2 * d * m + triangle * (m + 2 * d);  // vectors
  return {.forward = 2 * settings.factors() * forward, .backward = 2 * settings.factors() * backward};
}

/// A chain of reflections I - 2 k k^T of random keys of norm 1. They keep the norm of the states, however
/// long the chain is. As a delta product it has the same keys, step sizes of 2 and values of 0.
template <class T>
class MeasuredChain {
 public:
  MeasuredChain(const BenchChainSettings& settings, Device device)
      : device_(device),
        chunk_(settings.chunk),
        layout_(TokenLayout::time_major(settings.length, settings.batch)),
        saved_(device) {
    const Index rows = layout_.rows(), h = settings.heads, d = settings.size, m = settings.columns;
    keys_ = unit_vectors<T>({rows, h, d}, device, 1);
    initial_states_ = normal_tensor<T>({settings.batch, h, d, m}, device, 2);
    d_outputs_ = normal_tensor<T>({rows, h, m}, device, 3);
    for (Tensor<T>* x : {&outputs_, &values_, &d_values_}) *x = Tensor<T>(d_outputs_.shape(), device);
    for (Tensor<T>* x : {&d_left_, &d_right_}) *x = Tensor<T>(keys_.shape(), device);
    for (Tensor<T>* x : {&final_states_, &d_initial_states_}) *x = Tensor<T>(initial_states_.shape(), device);
    scales_ = filled_tensor<T>({rows, h}, device, -2);
    betas_ = filled_tensor<T>({rows, h}, device, 2);
    d_scales_ = Tensor<T>(scales_.shape(), device);
  }

  /// To be timed while this lives, as `recurrence`.
  TimedPass chain() {
    return {device_,
            true,
            {.forward =
                 [this] {
                   saved_.clear();  // a forward that is timed alone has no backward
                   rank_one_chain_forward<T>(chain_input(), layout_, {.chunk = chunk_}, outputs_,
                                             final_states_, saved_);
                 },
             .backward =
                 [this] {
                   rank_one_chain_backward<T>(chain_input(), layout_, {.chunk = chunk_},
                                              {.d_outputs = d_outputs_,
                                               .d_left = d_left_,
                                               .d_right = d_right_,
                                               .d_left_scales = d_scales_,
                                               .d_initial_states = d_initial_states_},
                                              saved_);
                 }}};
  }
  TimedPass recurrence() {
    return {device_,
            true,
            {.forward =
                 [this] {
                   saved_.clear();
                   delta_product_forward<T>(delta_input(), layout_, {.form = DeltaForm::recurrent}, outputs_,
                                            final_states_, saved_);
                 },
             .backward =
                 [this] {
                   delta_product_backward<T>(delta_input(), layout_, {.form = DeltaForm::recurrent},
                                             {.d_outputs = d_outputs_,
                                              .d_queries = d_left_,
                                              .d_keys = of_factors(d_right_),
                                              .d_values = of_factors(d_values_),
                                              .d_betas = of_factors(d_scales_),
                                              .d_initial_states = d_initial_states_},
                                             saved_);
                 }}};
  }

 private:
  /// [R, ..] as [R, 1, ..].
  template <class U>
  static TensorView<U> of_factors(TensorView<U> x) {
    Shape shape{x.shape()[0], 1};
    for (int i = 1; i < x.shape().rank(); ++i) shape.append(x.shape()[i]);
    return x.reshaped(shape);
  }
  static TensorView<T> of_factors(Tensor<T>& x) { return of_factors(x.view()); }
  static TensorView<const T> of_factors(const Tensor<T>& x) { return of_factors(x.view()); }

  RankOneChainInput<T> chain_input() const {
    return {.left = keys_, .right = keys_, .left_scales = scales_, .initial_states = initial_states_};
  }
  DeltaProductInput<T> delta_input() const {
    return {.queries = keys_,
            .keys = of_factors(keys_),
            .values = of_factors(values_),
            .betas = of_factors(betas_),
            .initial_states = initial_states_};
  }

  Device device_;
  Index chunk_;
  TokenLayout layout_;
  Tensor<T> keys_, scales_, betas_, values_, initial_states_, d_outputs_;
  Tensor<T> outputs_, final_states_, d_left_, d_right_, d_scales_, d_values_, d_initial_states_;
  Saved saved_;
};

bool has_recurrence(const BenchChainSettings& settings, Device device) {
  return !device.is_cuda() || settings.size <= DeltaProductOptions::gpu_recurrent_key;
}

template <class T>
void measure(const BenchChainSettings& settings, Device device, PassTable& table) {
  MeasuredChain<T> measured(settings, device);
  const auto rate = product_rate<T>(device, settings.size);
  const auto time = [&](DeltaForm form, TimedPass pass, const Flops& flops) {
    Json fields = {{"benchmark", "rank-one-chain"}, {"form", name_of(form)},   {"batch", settings.batch},
                   {"length", settings.length},     {"heads", settings.heads}, {"size", settings.size},
                   {"columns", settings.columns}};
    if (form == DeltaForm::chunked) fields["chunk"] = settings.chunk;
    table.time(std::move(pass), flops, rate, fmt::format("{:<10}", name_of(form)), std::move(fields));
  };
  if (has_recurrence(settings, device)) {
    time(DeltaForm::recurrent, measured.recurrence(),
         recurrent_flops(settings.factors(), static_cast<double>(settings.size),
                         static_cast<double>(settings.columns), 1));
  }
  time(DeltaForm::chunked, measured.chain(), flops_of(settings));
}

int bench_rank_one_chain(BenchChainSettings& settings) {
  const auto describe = [&](Device device) {
    fmt::print("chain of reflections: batch {}, {} factors, {} heads, vectors of {}, {} columns\n",
               settings.batch, settings.length, settings.heads, settings.size, settings.columns);
    fmt::print("chunked: rank_one_chain, with chunks of at most {} factors\n", settings.chunk);
    if (has_recurrence(settings, device)) {
      fmt::print("recurrent: the same product factor by factor, by delta_product\n");
    } else {
      fmt::print("recurrent: left out, a GPU takes vectors of {} numbers at most\n",
                 DeltaProductOptions::gpu_recurrent_key);
    }
  };
  return bench_in_chunks(
      settings, RankOneChainOptions().chunk, "form", describe,
      [&]<class T>(T, Device device, PassTable& table) { measure<T>(settings, device, table); });
}

}  // namespace

void add_bench_rank_one_chain(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "rank-one-chain", "Chains of rank-one factors, in chunks and factor by factor, forward and backward");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<BenchChainSettings>();
  settings->machine.device = "cpu";
  add_size(*command, "--batch", settings->batch, "Sequences B", Index{1} << 20);
  add_size(*command, "--length", settings->length, "Factors T of a chain", Index{1} << 30);
  add_size(*command, "--heads", settings->heads, "Heads H", 4096);
  add_size(*command, "--size", settings->size, "Size D of a factor's vectors", 4096);
  add_size(*command, "--columns", settings->columns, "Columns M of a state", 4096);
  add_size(*command, "--chunk", settings->chunk, "Factors of a chunk at most; on a GPU 32 at most", 4096);
  settings->machine.add_device_to(*command);
  add_value(*command, "--precision", settings->precision, "Numbers: fp32 or fp64");
  settings->table.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return bench_rank_one_chain(*settings); }; });
}

}  // namespace orthornn::program
