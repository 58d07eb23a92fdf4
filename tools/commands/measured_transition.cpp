#include "commands/measured_transition.hpp"

#include <algorithm>
#include <utility>

#include "commands/timing.hpp"
#include "core/set_zero.hpp"  // not public, but what is recorded for a GPU must take no memory
#include "plan/plan.hpp"      // not public, but these are the counts that the library plans with

namespace orthornn::program {
namespace {

/// With reflection vectors of the papers' benchmarks.
BenchCell bench_cell_of(std::string name, std::string title, TransitionOptions options) {
  std::visit(
      [](auto& own) {
        if constexpr (requires { own.reflections; }) own.init = Init::normal;
      },
      options);
  return {std::move(name), std::move(title), std::move(options)};
}

struct TitleOf {
  std::string operator()(const auto& options) const { return options.title; }
  std::string operator()(const OwnTransition& options) const { return options.name; }
};

std::vector<BenchCell> all_bench_cells() {
  std::vector<BenchCell> cells;
  for (const auto& [name, options] : Names<TransitionOptions>::list) {
    cells.push_back(bench_cell_of(name, std::visit(TitleOf{}, options), options));
    if (std::holds_alternative<Cwy>(options)) {
      cells.push_back(bench_cell_of("cwy-dense", "", Cwy{.form = ReflectionForm::dense}));
      cells.push_back(bench_cell_of("cwy-factored", "", Cwy{.form = ReflectionForm::factored}));
    }
    if (std::holds_alternative<HouseholderProduct>(options)) {
      cells.push_back(bench_cell_of("householder-rank-one", "sequential Householder, rank-one updates",
                                    HouseholderProduct{.rank_one_updates = true}));
    }
  }
  return cells;
}

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
  /// Not counted; a rollout takes many more.
  double operator()(const auto&) const { return 0; }
};

double operations_of_column(const std::string& form, double n, double l) {
  if (form == "dense") return dense_operations(n);
  return form == "rank-one" ? rank_one_operations(n, l) : factored_operations(n, l);
}

}  // namespace

TransitionOptions BenchCell::with(Index reflections) const {
  TransitionOptions sized = options;
  if (Index* count = reflections_of(sized)) *count = reflections;
  return sized;
}

const std::vector<BenchCell>& bench_cells() {
  static const std::vector<BenchCell> cells = all_bench_cells();
  return cells;
}

const BenchCell& bench_cell(std::string_view name) {
  return *std::find_if(bench_cells().begin(), bench_cells().end(),
                       [&](const BenchCell& c) { return name == c.name; });
}

MeasuredTransition::MeasuredTransition(const BenchCell& cell, Index hidden, Index reflections,
                                       const Execution& execution)
    : cell_(cell),
      transition_(make_transition<float>(cell.with(reflections), hidden, execution)),
      parameters_(transition_->parameter_shape(), execution.device),
      d_parameters_(transition_->parameter_shape(), execution.device),
      reflections_(cell.has_reflections() ? transition_->parameter_shape()[0] : 0) {
  transition_->initialize(1, parameters_);
}

MeasuredRollout::MeasuredRollout(const BenchCell& cell, Index hidden, Index reflections, Index length,
                                 Index batch, Activation activation, const Execution& execution)
    : MeasuredTransition(cell, hidden, reflections, execution),
      activation_(activation),
      length_(length),
      batch_(batch),
      input_({length + 1, batch, hidden}, execution.device),
      states_(input_.shape(), execution.device),
      d_input_({length, batch, hidden}, execution.device),
      d_states_(d_input_.shape(), execution.device),
      bias_({hidden}, execution.device),
      last_({batch, hidden}, execution.device),
      d_initial_(last_.shape(), execution.device),
      pass_(execution.device,
            transition_->recordable() &&
                launches_of_rollout(*transition_, length, batch) <= RecordedLoops::most_launches,
            {.restore =
                 [this] {
                   copy<float>(input_, states_);
                   copy<float>(d_input_, d_states_);
                 },
             .forward = [this] { forward(); },
             .backward = [this] { backward(); }}) {
  fill_normal(input_, 3);
  fill_normal(d_input_, 4);
  fill_normal(bias_, 5);
}

void MeasuredRollout::forward() {
  transition_->prepare(parameters_);
  rollout_forward<float>(*transition_, activation_, bias_, {}, states_, last_, cache_);
}

void MeasuredRollout::backward() {
  rollout_backward<float>(*transition_, activation_, {}, states_, {}, d_states_, d_initial_, cache_);
  const Index count = transition_->coefficient_count();
  const auto coefficients = [&](const Tensor<float>& c) {
    return MatrixView<const float>{c.data(), count, length_ * batch_, count, device()};
  };
  transition_->backward_of_rollout(columns_of(std::as_const(d_states_)),
                                   columns_of(std::as_const(states_).view().slice(0, length_)),
                                   coefficients(cache_.z), coefficients(cache_.y), d_parameters_);
}

double MeasuredRollout::flops() const {
  const auto n = static_cast<double>(hidden_size()), l = static_cast<double>(reflections());
  return std::visit(OperationsOfPrepare{n, l, form()}, cell_.options) +
         operations_of_column(form(), n, l) * static_cast<double>(length_ * batch_);
}

nlohmann::ordered_json MeasuredRollout::details() {
  return {{"activation", name_of(activation_)},
          {"rollout", name_of(rollout_way(*transition_, length_, batch_))},
          {"orthogonality_error", orthogonality_error<float>(applied_.of(*transition_))}};
}

MeasuredPrepare::MeasuredPrepare(const BenchCell& cell, Index hidden, Index reflections,
                                 const Execution& execution)
    : MeasuredTransition(cell, hidden, reflections, execution),
      d_q_({hidden, hidden}, execution.device),
      pass_(execution.device, transition_->recordable(),
            {.forward = [this] { form_q(); },
             .backward = [this] { transition_->backward(d_q_, d_parameters_); }}) {
  fill_normal(d_q_, 6);
}

void MeasuredPrepare::form_q() { transition_->prepare(parameters_); }

MeasuredConstruction::MeasuredConstruction(const BenchCell& cell, Index hidden, Index reflections,
                                           const Execution& execution)
    : MeasuredPrepare(cell, hidden, reflections, execution) {
  if (!device().is_cuda() || form() == "dense") return;
  Tensor<float> identity({hidden, hidden});
  for (Index i = 0; i < hidden; ++i) identity(i, i) = 1;
  identity_ = identity.copy(device());
  q_ = Tensor<float>({hidden, hidden}, device());
  coefficients_ = Tensor<float>({hidden, transition_->coefficient_count()}, device());
}

void MeasuredConstruction::form_q() {
  transition_->prepare(parameters_);
  // A dense form has Q by now; to multiply it by the identity would time a product that nobody needs.
  if (form() == "dense") return;
  if (!device().is_cuda()) {
    transition_->materialize();
    return;
  }
  // What `materialize` does, but not into new memory, for which a GPU would stop.
  set_zero(q_.view());
  transition_->multiply_add_transposed(columns_of(std::as_const(identity_)), columns_of(q_),
                                       columns_of(coefficients_));
}

}  // namespace orthornn::program
