#include "orthornn/layers/gated_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/live_steps.hpp"
#include "core/set_zero.hpp"
#include "core/thread_scratch.hpp"
#include "cuda/layers/gated_rollout.hpp"
#include "cuda/products/grid_plan.hpp"
#include "layers/affine_map.hpp"
#include "layers/copy_to_rows.hpp"
#include "layers/initialization.hpp"
#include "layers/stepwise.hpp"
#include "linalg/column_sums.hpp"
#include "linalg/elementwise.hpp"
#include "linalg/gemm.hpp"
#include "linalg/lanes.hpp"
#include "linalg/packed_matrix.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/gru_layer.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "pointwise/gru.hpp"
#include "pointwise/lstm.hpp"
#include "products/plan.hpp"

namespace orthornn {
namespace {

// A product, which may be three kernels, and a pointwise one.
constexpr Index launches_of_step = 4;

template <class Options>
using FormulaOf = std::conditional_t<std::is_same_v<Options, Lstm>, pointwise::Lstm, pointwise::Gru>;

}  // namespace

/// R [M, N], by which a gated recurrence multiplies its state at every step, in the orders in which forward
/// and backward read it.
template <class T>
class RecurrentWeights {
 public:
  /// Threads take columns in multiples of the product kernel's column group, so that results do not depend on
  /// the number of threads.
  static constexpr Index column_grain = 16;

  explicit RecurrentWeights(const Execution& execution) : precision_(execution.precision) {}

  void prepare(ConstTensorView<T> weights) {
    // R [M, N] is R^T in the column-major view.
    forward_.pack(transposed(columns_of(weights)));
    backward_.pack(columns_of(weights));
  }
  /// a += R h. By the calling thread alone.
  void multiply_add(MatrixView<const T> h, MatrixView<T> a) const {
    forward_.multiply_add(1, h, a, precision_);
  }
  /// d += R^T g.
  void multiply_add_transposed(MatrixView<const T> g, MatrixView<T> d) const {
    backward_.multiply_add(1, g, d, precision_);
  }

 private:
  Precision precision_;
  PackedMatrix<T> forward_, backward_;
};

/// What a rollout reads and writes, forward and backward. Views that a formula or a direction has no use for
/// are empty.
template <class T, class Options>
struct GatedLayer<T, Options>::Rollout {
  using Formula = FormulaOf<Options>;
  struct StepProducts;

  TensorView<const std::int32_t> lengths;
  std::array<TensorView<T>, 2> states = {};  ///< [T + 1, B, N], the first states first.
  TensorView<T> gates = {};                  ///< [T, B, GN], as in GatedStep.
  TensorView<T> products = {};               ///< [T, B, GN] on a GPU, as in GatedStep.
  /// [T, B, N] on the CPU, as in GatedStep. There a step's products stay in the cache of their thread.
  TensorView<T> kept_products = {};
  /// b' [GN], where products are apart, on the CPU and over the grid.
  TensorView<const T> product_bias = {};
  std::array<TensorView<T>, 2> last = {};          ///< [B, N]
  std::array<TensorView<const T>, 2> d_last = {};  ///< [B, N]
  TensorView<T> d_h = {};                          ///< [T, B, N], gradients that arrive at h_t.
  /// [B, N]. First zeros, then gradients of the first states. That of c goes through all steps.
  std::array<TensorView<T>, 2> d_first = {};

  Index length() const { return gates.shape()[0]; }
  Index batch() const { return gates.shape()[1]; }
  /// Where R h is added for some sequences, and in a backward its gradient.
  MatrixView<T> product(Index t, Index begin, Index end) const {
    if (!Formula::separate_products) return columns(gates[t], begin, end);
    if (!products.empty()) return columns(products[t], begin, end);
    const Index rows = gates.shape()[2];
    return {thread_scratch<T, StepProducts>(rows * (end - begin)), rows, end - begin, rows};
  }
  /// Where the gradient of h_{t-1} is summed.
  TensorView<T> d_h_before(Index t) const { return t > 0 ? d_h[t - 1] : d_first[0]; }

  pointwise::GatedStep<T> step(Index t, MatrixView<T> product, Index begin) const {
    pointwise::GatedStep<T> step{.length = length(),
                                 .step = t,
                                 .size = states[0].shape()[2],
                                 .lengths = or_null(lengths),
                                 .gates = gates[t].data(),
                                 .d_c = d_first[1].data()};
    if (Formula::separate_products) {
      step.products = product.data;
      step.first_product = begin;
      if (!kept_products.empty()) step.kept_products = kept_products[t].data();
    }
    for (std::size_t i = 0; i < Formula::states; ++i) {
      step.before[i] = states[i][t].data();
      step.after[i] = states[i][t + 1].data();
      step.last[i] = last[i].data();
      step.d_last[i] = d_last[i].data();
    }
    if (!d_h.empty()) {
      step.d_h = d_h[t].data();
      step.d_h_before = d_h_before(t).data();
    }
    return step;
  }

  /// All steps in one kernel, from R.
  void run_over_grid(cuda::Direction direction, TensorView<const T> weights, Precision precision) const {
    if constexpr (has_cuda_bodies && std::is_same_v<T, float>) {
      cuda::GatedRolloutArguments arguments{.device = gates.device(),
                                            .length = length(),
                                            .batch = batch(),
                                            .hidden_size = states[0].shape()[2],
                                            .lengths = or_null(lengths),
                                            .gates = gates.data(),
                                            .products = products.data(),
                                            .product_bias = product_bias.data(),
                                            .d_h = d_h.data()};
      for (std::size_t i = 0; i < Formula::states; ++i) {
        arguments.states[i] = states[i].data();
        arguments.last[i] = last[i].data();
        arguments.d_last[i] = d_last[i].data();
        arguments.d_first[i] = d_first[i].data();
      }
      const auto run = std::is_same_v<Options, Lstm> ? cuda::lstm_grid_rollout : cuda::gru_grid_rollout;
      const cuda::GridProblem forward{.device = arguments.device,
                                      .batch = arguments.batch,
                                      .hidden_size = arguments.hidden_size,
                                      .precision = precision,
                                      .gates = static_cast<int>(Formula::gates)};
      const auto plan =
          cuda::grid_plan(direction == cuda::Direction::forward ? forward : transposed(forward));
      run(direction, arguments, weights.data(), plan.value());
    }
  }

  RecordedLoops::Key key(const RecurrentWeights<T>& weights) const {
    RecordedLoops::Key key = {key_of(&weights),
                              key_of(lengths.data()),
                              key_of(gates.data()),
                              key_of(products.data()),
                              key_of(d_h.data()),
                              static_cast<std::uintptr_t>(length()),
                              static_cast<std::uintptr_t>(batch())};
    for (std::size_t i = 0; i < Formula::states; ++i) {
      key.insert(key.end(), {key_of(states[i].data()), key_of(last[i].data()), key_of(d_last[i].data()),
                             key_of(d_first[i].data())});
    }
    return key;
  }

  /// Runs all steps of the sequences begin .. end - 1, on a GPU those of all sequences. Where W x + b is not
  /// there yet, input(t, begin, end) makes it just before it is used.
  void forward(const RecurrentWeights<T>& weights, const auto& input, Index begin, Index end) const {
    for (Index t = 0; t < length(); ++t) {
      input(t, begin, end);
      const MatrixView<T> own = product(t, begin, end);
      if (!product_bias.empty()) {
        for (Index b = 0; b < own.cols; ++b)
          std::copy(product_bias.begin(), product_bias.end(), own.column(b));
      }
      weights.multiply_add(columns(states[0][t], begin, end), own);
      compute(pointwise::GatedForward<T, Formula>{step(t, own, begin)}, begin, end);
    }
  }
  void backward(const RecurrentWeights<T>& weights, Index begin, Index end) const {
    for (Index t = length() - 1; t >= 0; --t) {
      const MatrixView<T> own = product(t, begin, end);
      compute(pointwise::GatedBackward<T, Formula>{step(t, own, begin)}, begin, end);
      weights.multiply_add_transposed(own, columns(d_h_before(t), begin, end));
    }
  }

 private:
  static MatrixView<T> columns(TensorView<T> x, Index begin, Index end) {
    return columns_of(x).columns(begin, end - begin);
  }
  void compute(const auto& body, Index begin, Index end) const {
    const Index size = body.step.size;
    if (gates.device().is_cuda()) return for_each_entry(gates.device(), size, end - begin, body);
    for (Index b = begin; b < end; ++b)
      for_each_lanes<T>(size, [&]<class V>(Index n) { body.template run<V>(n, b); });
  }
};

template <class T, class Options>
typename GatedLayer<T, Options>::Places GatedLayer<T, Options>::add_parameters(ParameterSet<T>& parameters,
                                                                               const std::string& prefix,
                                                                               const Options& options,
                                                                               Index input_size) {
  if (input_size < 1 || options.hidden_size < 1) {
    throw ValueError(fmt::format("{}: {} inputs and hidden size {}; expected at least 1 of each",
                                 Options::name, input_size, options.hidden_size));
  }
  const Index rows = Shape{FormulaOf<Options>::gates, options.hidden_size}.count();
  return {.input_weights = parameters.add(prefix + "/input_weights", {rows, input_size}),
          .input_bias = parameters.add(prefix + "/input_bias", {rows}),
          .recurrent_weights = parameters.add(prefix + "/recurrent_weights", {rows, options.hidden_size}),
          .recurrent_bias = parameters.add(prefix + "/recurrent_bias", {rows})};
}

template <class T, class Options>
GatedLayer<T, Options>::GatedLayer(ParameterSet<T>& parameters, const std::string& prefix,
                                   const Options& options, Index input_size, const Execution& execution)
    : Layer<T>(parameters, input_size, options.hidden_size),
      execution_(execution),
      places_(add_parameters(parameters, prefix, options, input_size)),
      input_map_(std::make_unique<AffineMap<T>>(input_size, FormulaOf<Options>::gates * options.hidden_size,
                                                execution)),
      recurrent_(std::make_unique<RecurrentWeights<T>>(execution)) {
  this->parameters_added();
}

template <class T, class Options>
GatedLayer<T, Options>::~GatedLayer() = default;

template <class T, class Options>
Index GatedLayer<T, Options>::state_count() const {
  return static_cast<Index>(FormulaOf<Options>::states);
}

template <class T, class Options>
void GatedLayer<T, Options>::initialize(std::uint64_t seed) {
  const Index n = this->output_size();
  const double bound = 1 / std::sqrt(static_cast<double>(n));
  RandomStream random(seed, RandomPurpose::initialization, 1);
  for (const Index place :
       {places_.input_weights, places_.input_bias, places_.recurrent_weights, places_.recurrent_bias})
    draw_uniform<T>(this->parameters_.value(place), bound, random);
  // The forget gates.
  if constexpr (std::is_same_v<Options, Lstm>)
    set_one<T>(this->parameters_.value(places_.recurrent_bias).slice(n, n));
}

template <class T, class Options>
void GatedLayer<T, Options>::run_prepare() {
  input_map_->forget();
  recurrent_->prepare(this->value(places_.recurrent_weights));
}

template <class T, class Options>
RolloutWay GatedLayer<T, Options>::way(Index length, Index batch) const {
  return planned_gated_way<T>(Options::name, static_cast<int>(FormulaOf<Options>::gates), this->output_size(),
                              length, batch, execution_);
}

template <class T, class Options>
std::optional<Index> GatedLayer<T, Options>::launches(Index length, Index batch) const {
  if (way(length, batch) == RolloutWay::grid) return 1;
  return std::min(length, RecordedLoops::most_launches) * launches_of_step;
}

template <class T, class Options>
LayerDescription GatedLayer<T, Options>::describe(Index length, Index batch) const {
  return {.kind = Options::name,
          .input_size = this->input_size(),
          .output_size = this->output_size(),
          .rollout = name_of(way(length, batch))};
}

/// Calls steps(begin, end) for ranges of sequences. A thread of the CPU carries its sequences through all of
/// T without synchronisation. A GPU has one range, and the steps are recorded where a graph can hold them.
template <class T, class Options>
template <class Steps>
void GatedLayer<T, Options>::run_steps(const Rollout& rollout, const Steps& steps) const {
  if (!execution_.device.is_cuda())
    return parallel_for(rollout.batch(), RecurrentWeights<T>::column_grain, steps);
  if (*launches(rollout.length(), rollout.batch()) > RecordedLoops::most_launches)
    return steps(0, rollout.batch());
  records_.run(execution_.device, rollout.key(*recurrent_), [&] { steps(0, rollout.batch()); });
}

template <class T, class Options>
TensorView<const T> GatedLayer<T, Options>::run_forward(const SequenceInput<T>& input, States<const T> start,
                                                        States<T> last, Saved& saved) const {
  using Formula = FormulaOf<Options>;
  const Index length = input.length(), batch = input.batch(), n = this->output_size();
  const Shape rows{length, batch, Formula::gates * n};
  Rollout r{.lengths = input.lengths};
  for (std::size_t i = 0; i < Formula::states; ++i) r.states[i] = saved.push<T>({length + 1, batch, n});
  r.gates = saved.push<T>(rows);
  const bool on_gpu = execution_.device.is_cuda(), over_grid = way(length, batch) == RolloutWay::grid;
  if (Formula::separate_products) {
    if (on_gpu)
      r.products = saved.push<T>(rows);
    else
      r.kept_products = saved.push<T>({length, batch, n});
  }
  // 1. The first states, which are also the last of a sequence without a step.
  for (std::size_t i = 0; i < Formula::states; ++i) {
    const TensorView<T> first = r.states[i][0];
    start.empty() ? set_zero(first) : copy<T>(start[i], first);
    if (last.empty()) continue;
    r.last[i] = last[i];
    copy<T>(first, last[i]);
  }
  // 2. W x_t + b and b' for all steps, together where the products are added to the gates.
  const Saved::Scope scope(saved);
  const TensorView<const T> recurrent_bias = this->value(places_.recurrent_bias);
  TensorView<const T> bias = this->value(places_.input_bias);
  if (Formula::separate_products) {
    if (on_gpu && !over_grid)
      copy_to_rows<T>(recurrent_bias, r.products);
    else
      r.product_bias = recurrent_bias;
  } else {
    const TensorView<T> sum = saved.push<T>(bias.shape());
    copy<T>(bias, sum);
    add<T>(columns_of(recurrent_bias), columns_of(sum));
    bias = sum;
  }
  const TensorView<const T> weights = this->value(places_.input_weights);
  // On the CPU a thread does so for a step just before it is used, while it is in the cache, unless some
  // threads have no sequences.
  const bool in_loop = !on_gpu && batch >= thread_count() * RecurrentWeights<T>::column_grain;
  if (in_loop)
    input_map_->arrange(input, weights);
  else
    input_map_->forward(input, weights, bias, r.gates, saved);
  // 3. The recurrence.
  if (over_grid) {
    r.run_over_grid(cuda::Direction::forward, this->value(places_.recurrent_weights), execution_.precision);
    return r.states[0].slice(1, length);
  }
  const auto map_input = [&](Index t, Index begin, Index end) {
    if (in_loop) input_map_->forward_columns(input, bias, r.gates, t, begin, end);
  };
  run_steps(r, [&](Index begin, Index end) { r.forward(*recurrent_, map_input, begin, end); });
  return r.states[0].slice(1, length);
}

template <class T, class Options>
void GatedLayer<T, Options>::run_backward(const SequenceInput<T>& input,
                                          const BackwardArguments<T>& arguments, bool, Saved& saved,
                                          Saved& scratch) const {
  using Formula = FormulaOf<Options>;
  const Index batch = input.batch(), n = this->output_size();
  Rollout r{.lengths = input.lengths, .d_h = arguments.d_output};
  Index place = static_cast<Index>(Formula::states) + (Formula::separate_products ? 1 : 0);
  for (std::size_t i = 0; i < Formula::states; ++i) r.states[i] = saved.top<T>(place--);
  r.gates = saved.top<T>(place--);
  if (Formula::separate_products)
    (execution_.device.is_cuda() ? r.products : r.kept_products) = saved.top<T>(place);
  // 1. The recurrence: gates and products become their gradients.
  for (std::size_t i = 0; i < Formula::states; ++i) {
    r.d_first[i] = arguments.d_start.empty() ? scratch.push<T>({batch, n}) : arguments.d_start[i];
    set_zero(r.d_first[i]);
    if (!arguments.d_last.empty()) r.d_last[i] = arguments.d_last[i];
  }
  if (way(r.length(), batch) == RolloutWay::grid)
    r.run_over_grid(cuda::Direction::backward, this->value(places_.recurrent_weights), execution_.precision);
  else
    run_steps(r, [&](Index begin, Index end) { r.backward(*recurrent_, begin, end); });
  for (std::size_t i = 0; i < Formula::states; ++i)
    add_where_empty<T>(input.lengths, r.d_last[i], r.d_first[i]);
  // 2. The parameters, from the gradients of all steps at once.
  input_map_->backward(input, this->value(places_.input_weights), r.gates,
                       {.weights = this->gradient(places_.input_weights),
                        .bias = this->gradient(places_.input_bias),
                        .input = arguments.d_input,
                        .mode = arguments.input},
                       scratch);
  recurrent_gradients(r, scratch);
}

/// The gradients of R and b', when that of b is there.
template <class T, class Options>
void GatedLayer<T, Options>::recurrent_gradients(const Rollout& r, Saved& scratch) const {
  using Formula = FormulaOf<Options>;
  const TensorView<T> d_weights = this->gradient(places_.recurrent_weights),
                      d_bias = this->gradient(places_.recurrent_bias);
  const TensorView<const T> d_input_bias = this->gradient(places_.input_bias);
  const TensorView<const T> before = r.states[0].slice(0, r.length());
  const Index n = this->output_size();
  const bool keeps_products = Formula::separate_products && !execution_.device.is_cuda();
  if (!keeps_products) {
    AffineMap<T>(n, Formula::gates * n, execution_)
        .backward({.vectors = before}, this->value(places_.recurrent_weights),
                  Formula::separate_products ? r.products : r.gates,
                  {.weights = d_weights, .bias = Formula::separate_products ? d_bias : TensorView<T>()},
                  scratch);
    if (!Formula::separate_products) copy<T>(d_input_bias, d_bias);
    return;
  }
  // The products of the last gate have gradients of their own, those of the others the gates' gradients.
  const Index others = (Formula::gates - 1) * n;
  const MatrixView<const T> of_gates = columns_of(r.gates), of_products = columns_of(r.kept_products),
                            h = columns_of(before);
  const MatrixView<T> d_r = columns_of(d_weights);
  gemm<T>(1, h, transposed(of_gates.block(0, 0, others, of_gates.cols)), 0, d_r.columns(0, others));
  gemm<T>(1, h, transposed(of_products), 0, d_r.columns(others, n));
  copy<T>(d_input_bias.slice(0, others), d_bias.slice(0, others));
  sum_rows<T>(r.kept_products, d_bias.slice(others, n), scratch);
}

template class GatedLayer<float, Lstm>;
template class GatedLayer<double, Lstm>;
template class GatedLayer<float, Gru>;
template class GatedLayer<double, Gru>;

}  // namespace orthornn
