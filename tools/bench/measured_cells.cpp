// Recurrences over whole sequences, and the forming of Q, forward and backward.

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/bench_cells.hpp"
#include "bench/random_tensors.hpp"
#include "commands/machine.hpp"
#include "core/set_zero.hpp"  // not public, but what is recorded for a GPU must take no memory
#include "products/plan.hpp"  // not public, but these are the counts that the library plans with

namespace orthornn::program {
namespace {

/// Floating-point operations of prepare and the parameters' backward, once a step of training.
struct OperationsOfPrepare {
  double n, l;
  const std::string& form;

  double operator()(const Cwy&) const {
    if (form == "dense") return dense_preparation(n, l);
    return form == "factored" ? factored_preparation(n, l) : sequential_preparation(n, l);
  }
  double operator()(const HouseholderProduct&) const { return sequential_preparation(n, l); }
  double operator()(const ScaledCayley&) const { return 6 * n * n * n; }
  /// Six products for the polynomial, and about four squarings for generators of norm ten; three times that
  /// for the derivative.
  double operator()(const MatrixExponential&) const { return 80 * n * n * n; }
  /// Three products and about 9 n^3 for eigenvectors, and eight products of the backward.
  double operator()(const WeightNormalization&) const { return 31 * n * n * n; }
  /// Not counted; a rollout takes many more.
  double operator()(const auto&) const { return 0; }
};

double operations_of_column(const std::string& form, double n, double l) {
  if (form == "dense") return dense_operations(n);
  return form == "rank-one" ? rank_one_operations(n, l) : factored_operations(n, l);
}

/// A transition with parameters, prepared by the runs.
struct TimedTransition {
  TimedTransition(const SizedCell& sized, const Execution& execution)
      : transition(sized.transition(), sized.hidden, execution) {
    transition.initialize(1, parameters);
  }

  Transition<float> transition;
  Index n = transition.hidden_size();
  Device device = transition.device();
  Tensor<float> parameters{transition.parameter_shape(), device}, d_parameters = zeros_like(parameters);
};

/// The recurrence of a transition, with random numbers in place of W x + b.
struct TimedRollout : TimedTransition {
  TimedRollout(const SizedCell& sized, const SequenceSizes& timed, const Execution& execution)
      : TimedTransition(sized, execution), sizes(timed) {}

  void forward() {
    transition.prepare(parameters);
    rollout_forward<float>(
        transition, sizes.activation, bias, {},
        {.h_0 = h_0, .inputs = inputs, .outputs = states.view().slice(1, sizes.length), .h_last = last},
        cache);
  }
  void backward() {
    rollout_backward<float>(transition, sizes.activation, {},
                            {.outputs = std::as_const(states).view().slice(1, sizes.length),
                             .d_outputs = d_outputs,
                             .d_h_last = {},
                             .d_inputs = d_inputs,
                             .d_h_0 = d_h_0},
                            cache);
    const Index count = transition.coefficient_count(), columns = sizes.length * sizes.batch;
    const auto coefficients = [&](const Tensor<float>& c) {
      return MatrixView<const float>{c.data(), count, columns, count, device};
    };
    transition.backward_of_rollout(columns_of(std::as_const(d_inputs)),
                                   columns_of(std::as_const(states).view().slice(0, sizes.length)),
                                   coefficients(cache.z), coefficients(cache.y), d_parameters);
  }
  bool recordable() const {
    return transition.recordable() &&
           launches_of_rollout(transition, sizes.length, sizes.batch) <= RecordedLoops::most_launches;
  }
  Json details() {
    return {{"activation", name_of(sizes.activation)},
            {"rollout", name_of(rollout_way(transition, sizes.length, sizes.batch))},
            {"orthogonality_error", orthogonality_error<float>(applied.of(transition))}};
  }

  SequenceSizes sizes;
  Tensor<float> inputs = normal_tensor({sizes.length, sizes.batch, n}, device, 3);
  Tensor<float> d_outputs = normal_tensor({sizes.length, sizes.batch, n}, device, 4);
  Tensor<float> bias = normal_tensor(Shape{n}, device, 5);
  /// h_0, a random state, and the outputs after it.
  Tensor<float> states = normal_tensor({sizes.length + 1, sizes.batch, n}, device, 6);
  TensorView<const float> h_0 = std::as_const(states).view()[0];
  Tensor<float> d_inputs = zeros_like(d_outputs);
  Tensor<float> last{{sizes.batch, n}, device}, d_h_0 = zeros_like(last);
  RolloutCache<float> cache;
  AppliedMatrix<float> applied;
};

Measured measured_transition(const SizedCell& sized, const SequenceSizes& sizes, const Execution& execution) {
  const auto rollout = std::make_shared<TimedRollout>(sized, sizes, execution);
  const std::string& form = rollout->transition.form();
  const auto n = static_cast<double>(sized.hidden), l = static_cast<double>(sized.reflections);
  return {.fields = {{"form", form}, {"hidden", sized.hidden}, {"reflections", sized.reflections}},
          .pass = {.forward = [rollout] { rollout->forward(); },
                   .backward = [rollout] { rollout->backward(); },
                   .recordable = rollout->recordable()},
          .flops = std::visit(OperationsOfPrepare{n, l, form}, sized.transition()) +
                   operations_of_column(form, n, l) * static_cast<double>(sizes.length * sizes.batch),
          .details = [rollout] { return rollout->details(); }};
}

std::unique_ptr<Layer<float>> make_whole_layer(ParameterSet<float>& parameters, const WholeLayer& kind,
                                               Index hidden, const Execution& execution) {
  RecurrentOptions options = kind.options;
  std::visit([&](auto& own) { own.hidden_size = hidden; }, options);
  return make_layer(parameters, "layer", layer_options(options), measured_input_size, execution);
}

/// A layer with random inputs [T, B, measured_input_size].
struct TimedLayer {
  TimedLayer(const WholeLayer& kind, Index hidden, const SequenceSizes& timed, const Execution& execution)
      : sizes(timed), device(execution.device), layer(make_whole_layer(parameters, kind, hidden, execution)) {
    parameters.allocate(device);
    layer->initialize(1);
    for (std::vector<TensorView<float>>* some : {&last, &d_start}) {
      for (Index i = 0; i < layer->state_count(); ++i)
        some->push_back(states.push<float>(layer->state_shape(i, sizes.batch)));
    }
  }

  void restore() { copy<float>(d_output, work_d_output); }
  void forward() {
    saved.clear();  // a forward that is timed alone has no backward
    layer->prepare();
    layer->forward({.vectors = input}, {}, last, saved);
  }
  void backward() {
    layer->backward({.vectors = input}, {.d_output = work_d_output, .d_input = d_input, .d_start = d_start},
                    saved, scratch);
  }

  SequenceSizes sizes;
  Device device;
  ParameterSet<float> parameters;
  std::unique_ptr<Layer<float>> layer;
  Tensor<float> input = normal_tensor({sizes.length, sizes.batch, measured_input_size}, device, 3);
  Tensor<float> d_input = zeros_like(input);
  Tensor<float> d_output = normal_tensor({sizes.length, sizes.batch, layer->output_size()}, device, 4);
  Tensor<float> work_d_output = zeros_like(d_output);
  /// `states` has the memory of the other two.
  Saved states{device};
  std::vector<TensorView<float>> last, d_start;
  Saved saved{device}, scratch{device};
};

Measured measured_layer(const WholeLayer& kind, Index hidden, const SequenceSizes& sizes,
                        const Execution& execution) {
  const auto timed = std::make_shared<TimedLayer>(kind, hidden, sizes, execution);
  const LayerDescription description = timed->layer->describe(sizes.length, sizes.batch);
  const std::optional<Index> launches = timed->layer->launches(sizes.length, sizes.batch);
  return {.fields = {{"form", description.form},
                     {"hidden", hidden},
                     {"reflections", 0},
                     {"rollout", description.rollout},
                     {"input_size", measured_input_size}},
          .pass = {.forward = [timed] { timed->forward(); },
                   .backward = [timed] { timed->backward(); },
                   .restore = [timed] { timed->restore(); },
                   .recordable = launches && *launches <= RecordedLoops::most_launches},
          .flops = flops_of_gates(kind.gates, hidden, sizes.length, sizes.batch)};
}

struct TimedConstruction : TimedTransition {
  TimedConstruction(const SizedCell& sized, bool multiplied_out, const Execution& execution)
      : TimedTransition(sized, execution), multiplies(multiplied_out && transition.form() != "dense") {
    if (!multiplies || !device.is_cuda()) return;
    Tensor<float> entries(d_q.shape());
    for (Index i = 0; i < n; ++i) entries(i, i) = 1;
    identity = entries.copy(device);
    q = zeros_like(identity);
    coefficients = Tensor<float>({n, transition.coefficient_count()}, device);
  }

  void forward() {
    transition.prepare(parameters);
    if (!multiplies) return;
    if (!device.is_cuda()) {
      transition.materialize();
      return;
    }
    // What `materialize` does, but not into new memory, for which a GPU would stop.
    set_zero(q.view());
    transition.multiply_add_transposed(columns_of(std::as_const(identity)), columns_of(q),
                                       columns_of(coefficients));
  }

  /// Whether factors are multiplied out. A dense form has Q by then; to multiply it by the identity would
  /// time a product that is not needed.
  bool multiplies;
  Tensor<float> d_q = normal_tensor({n, n}, device, 6);
  /// For a GPU that multiplies.
  Tensor<float> identity, q, coefficients;
};

}  // namespace

void check_rollout(const SizedCell& sized, const SequenceSizes& sizes, const Execution& execution) {
  if (const auto* kind = std::get_if<WholeLayer>(&sized.cell.kind)) {
    ParameterSet<float> parameters;
    const auto layer = make_whole_layer(parameters, *kind, sized.hidden, execution);
    chosen_description(*layer, execution, sizes.length, sizes.batch);
  } else if (!sized.cell.is_whole_layer()) {
    const auto transition = make_transition<float>(sized.transition(), sized.hidden, execution);
    chosen_way(*transition, sizes.length, sizes.batch);
  }
}

Measured measured_rollout(const SizedCell& sized, const SequenceSizes& sizes, const Execution& execution) {
  if (const auto* kind = std::get_if<WholeLayer>(&sized.cell.kind))
    return measured_layer(*kind, sized.hidden, sizes, execution);
  if constexpr (has_cudnn) {
    if (const auto* layer = std::get_if<CudnnLayer>(&sized.cell.kind))
      return measured_cudnn_rnn(sized.cell.name, *layer, sized.hidden, sizes.length, sizes.batch, execution);
  }
  return measured_transition(sized, sizes, execution);
}

Measured measured_construction(const SizedCell& sized, ConstructionEnd end, const Execution& execution) {
  const auto timed = std::make_shared<TimedConstruction>(sized, end == ConstructionEnd::entries, execution);
  return {.fields = {{"form", timed->transition.form()},
                     {"hidden", sized.hidden},
                     {"reflections", sized.reflections}},
          .pass = {.forward = [timed] { timed->forward(); },
                   .backward = [timed] { timed->transition.backward(timed->d_q, timed->d_parameters); },
                   .recordable = timed->transition.recordable()}};
}

}  // namespace orthornn::program
