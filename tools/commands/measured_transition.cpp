#include "commands/measured_transition.hpp"

#include <algorithm>
#include <utility>

#include "commands/timing.hpp"

namespace orthornn::program {
namespace {

constexpr BenchCell bench_cells[] = {
    {"cwy",
     [](Index l) -> TransitionOptions {
       return Cwy{l, Init::normal};
     },
     true},
    {"cwy-dense",
     [](Index l) -> TransitionOptions {
       return Cwy{l, Init::normal, ReflectionForm::dense};
     },
     true},
    {"cwy-factored",
     [](Index l) -> TransitionOptions {
       return Cwy{l, Init::normal, ReflectionForm::factored};
     },
     true},
    {"householder",
     [](Index l) -> TransitionOptions {
       return HouseholderProduct{l, Init::normal};
     },
     true},
    {"householder-rank-one",
     [](Index l) -> TransitionOptions {
       return HouseholderProduct{l, Init::normal, true};
     },
     true},
    {"cayley", [](Index) -> TransitionOptions { return ScaledCayley{}; }, false},
    {"expm", [](Index) -> TransitionOptions { return MatrixExponential{}; }, false},
    {"free", [](Index) -> TransitionOptions { return Unconstrained{}; }, false}};

}  // namespace

std::vector<std::string> bench_cell_names() {
  std::vector<std::string> names;
  for (const BenchCell& cell : bench_cells) names.emplace_back(cell.name);
  return names;
}

const BenchCell& bench_cell(const std::string& name) {
  return *std::find_if(std::begin(bench_cells), std::end(bench_cells),
                       [&](const BenchCell& c) { return name == c.name; });
}

MeasuredTransition::MeasuredTransition(const BenchCell& cell, Index hidden, Index reflections)
    : cell_(cell), transition_(make_transition<float>(cell.options(reflections), hidden)) {
  parameters_ = Tensor<float>(transition_->parameter_shape());
  d_parameters_ = Tensor<float>(transition_->parameter_shape());
  transition_->initialize(1, parameters_);
  reflections_ = cell.has_reflections ? transition_->parameter_shape()[0] : 0;
}

MeasuredRollout::MeasuredRollout(const BenchCell& cell, Index hidden, Index reflections, Index length,
                                 Index batch, Activation activation)
    : MeasuredTransition(cell, hidden, reflections), activation_(activation), length_(length), batch_(batch) {
  input_.resize({length_ + 1, batch_, hidden});
  states_.resize(input_.shape());
  d_input_.resize({length_, batch_, hidden});
  d_states_.resize(d_input_.shape());
  bias_.resize({hidden});
  last_.resize({batch_, hidden});
  d_initial_.resize({batch_, hidden});
  fill_normal(input_, 3);
  fill_normal(d_input_, 4);
  fill_normal(bias_, 5);
}

Sample MeasuredRollout::run() {
  copy<float>(input_, states_);
  copy<float>(d_input_, d_states_);
  Sample sample{};
  sample.forward_ms = milliseconds([&] {
    transition_->prepare(parameters_);
    rollout_forward<float>(*transition_, activation_, bias_, {}, states_, last_, cache_);
  });
  sample.backward_ms = milliseconds([&] {
    rollout_backward<float>(*transition_, activation_, {}, states_, {}, d_states_, d_initial_, cache_);
    const Index count = transition_->coefficient_count();
    const auto coefficients = [&](const Tensor<float>& c) {
      return MatrixView<const float>{c.data(), count, length_ * batch_, count};
    };
    transition_->backward_of_rollout(columns_of(std::as_const(d_states_)),
                                     columns_of(std::as_const(states_).view().slice(0, length_)),
                                     coefficients(cache_.z), coefficients(cache_.y), d_parameters_);
  });
  return sample;
}

double MeasuredRollout::flops() const {
  return transition_->flops_of_prepare() +
         transition_->flops_per_column() * static_cast<double>(length_ * batch_);
}

MeasuredPrepare::MeasuredPrepare(const BenchCell& cell, Index hidden, Index reflections)
    : MeasuredTransition(cell, hidden, reflections) {
  d_q_.resize({hidden, hidden});
  fill_normal(d_q_, 6);
}

void MeasuredPrepare::form() { transition_->prepare(parameters_); }

Sample MeasuredPrepare::run() {
  Sample sample{};
  sample.forward_ms = milliseconds([&] { form(); });
  sample.backward_ms = milliseconds([&] { transition_->backward(d_q_, d_parameters_); });
  return sample;
}

void MeasuredConstruction::form() {
  transition_->prepare(parameters_);
  // A dense form has Q by now; to multiply it by the identity would time a product that nobody needs.
  if (transition_->form() != "dense") transition_->materialize();
}

}  // namespace orthornn::program
