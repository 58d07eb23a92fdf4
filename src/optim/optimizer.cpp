#include "orthornn/optim/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/optim/optimizer.hpp"
#include "optim/stiefel_update.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/scalar/update_rules.hpp"

namespace orthornn {
namespace {

// Elements of a piece: enough to hide the cost of scheduling it, few enough to balance the threads.
constexpr Index piece_size = 4096;
// A thread is used only for at least this many pieces.
constexpr Index pieces_per_thread = 4;

template <class Options>
double learning_rate(const Options& options, ParameterKind kind) {
  return kind == ParameterKind::ordinary ? options.lr : options.lr_orthogonal.value_or(options.lr / 10);
}

template <class Options>
double weight_decay(const Options& options, ParameterKind kind) {
  return kind == ParameterKind::ordinary ? options.weight_decay : 0;
}

/// The step of which a rule is made: its number, from 1, the kind of parameter, and the schedule's factor.
struct RuleStep {
  std::int64_t number;
  ParameterKind kind;
  double schedule_factor;

  template <class Options>
  double rate(const Options& options) const {
    return learning_rate(options, kind) * schedule_factor;
  }
};

// One overload each for an optimizer: the names of its moments, and its rule.

template <class Options>
concept SgdOptions = std::same_as<Options, Sgd> || std::same_as<Options, Rgd>;

std::vector<const char*> moments_of(const SgdOptions auto& options) {
  if (options.momentum > 0) return {"momentum"};
  return {};
}

template <class T, SgdOptions Options>
SgdRule<T> rule_of(const Options& options, const RuleStep& step) {
  return {.rate = static_cast<T>(step.rate(options)),
          .decay = static_cast<T>(weight_decay(options, step.kind)),
          .keep = static_cast<T>(options.momentum)};
}

std::vector<const char*> moments_of(const RmsProp&) { return {"square_average"}; }

template <class T>
RmsPropRule<T> rule_of(const RmsProp& options, const RuleStep& step) {
  return {.rate = static_cast<T>(step.rate(options)),
          .decay = static_cast<T>(weight_decay(options, step.kind)),
          .keep = static_cast<T>(options.decay),
          .take = static_cast<T>(1 - options.decay),
          .epsilon = static_cast<T>(options.epsilon)};
}

template <class Options>
concept AdamOptions =
    std::same_as<Options, Adam> || std::same_as<Options, AdamW> || std::same_as<Options, RgdAdam>;

std::vector<const char*> moments_of(const AdamOptions auto&) { return {"first_moment", "second_moment"}; }

template <class T, AdamOptions Options>
AdamRule<T> rule_of(const Options& options, const RuleStep& step) {
  constexpr bool decoupled = std::same_as<Options, AdamW>;
  const double number = static_cast<double>(step.number);
  const double correction1 = 1 - std::pow(options.beta1, number);
  const double correction2 = 1 - std::pow(options.beta2, number);
  const double rate = step.rate(options), lambda = weight_decay(options, step.kind);
  return {.corrected_rate = static_cast<T>(rate / correction1),
          .root_scale = static_cast<T>(1 / std::sqrt(correction2)),
          .decay = static_cast<T>(decoupled ? 0 : lambda),
          .shrink = static_cast<T>(decoupled ? 1 - rate * lambda : 1),
          .keep1 = static_cast<T>(options.beta1),
          .take1 = static_cast<T>(1 - options.beta1),
          .keep2 = static_cast<T>(options.beta2),
          .take2 = static_cast<T>(1 - options.beta2),
          .epsilon = static_cast<T>(options.epsilon)};
}

template <class Options>
concept RiemannianOptions = std::same_as<Options, Rgd> || std::same_as<Options, RgdAdam>;

template <class T>
std::unique_ptr<StiefelUpdate<T>> stiefel_update(const OptimizerOptions& options, const Parameter& parameter,
                                                 Device device) {
  const Shape& shape = parameter.shape;
  if (shape.rank() != 2 || shape[1] < 1 || shape[0] < shape[1]) {
    throw ShapeError(fmt::format("'{}' has shape {}; expected [N, M] with N >= M >= 1, a point of St(N, M)",
                                 parameter.name, to_string(shape)));
  }
  return std::visit(
      [&]<class Options>(const Options& chosen) -> std::unique_ptr<StiefelUpdate<T>> {
        if constexpr (RiemannianOptions<Options>) {
          return std::make_unique<StiefelUpdate<T>>(shape, parameter.offset, device, chosen.metric,
                                                    chosen.retraction);
        } else {
          throw ValueError(
              fmt::format("{}: '{}' is a point of a Stiefel manifold, which this optimizer would leave; "
                          "expected the optimizer rgd or rgd-adam, or another parametrization",
                          chosen.name, parameter.name));
        }
      },
      options);
}

}  // namespace

template <class T>
Optimizer<T>::Optimizer(const OptimizerOptions& options, const ParameterSet<T>& parameters)
    : options_(options), count_(parameters.count()), device_(parameters.values().device()) {
  // In T, where 0.99999999 is 1, with which a mean would never move, and an epsilon of 1e-50 is 0.
  std::visit([](const auto& chosen) { check_fields<T>(chosen.name, chosen); }, options);
  if (parameters.values().size() != count_) {
    throw ValueError("an optimizer was made for parameters that have no memory yet; call allocate() first");
  }
  for (std::size_t i = 0; i < parameters.list().size();) {
    // Adjacent parameters of one kind form one run: many small biases would make many small pieces.
    const ParameterKind kind = parameters.list()[i].kind;
    Index first = parameters.list()[i].offset;
    while (i < parameters.list().size() && parameters.list()[i].kind == kind) ++i;
    if (kind == ParameterKind::stiefel) continue;
    const Index last = i < parameters.list().size() ? parameters.list()[i].offset : count_;
    for (; first < last; first += piece_size) {
      pieces_.push_back({first, std::min(last, first + piece_size), kind});
    }
  }
  for (const Parameter& parameter : parameters.list()) {
    if (parameter.kind == ParameterKind::stiefel)
      points_.push_back(stiefel_update<T>(options, parameter, device_));
  }
  for (const char* name : std::visit([](const auto& chosen) { return moments_of(chosen); }, options))
    moments_.push_back({name, Tensor<T>(Shape{count_}, device_)});
  if (!device_.is_cuda()) return;
  Tensor<std::uint8_t> kinds(Shape{count_});
  for (const Parameter& parameter : parameters.list()) {
    std::fill_n(kinds.data() + parameter.offset, parameter.shape.count(),
                static_cast<std::uint8_t>(parameter.kind));
  }
  kinds_ = kinds.copy(device_);
}

template <class T>
Optimizer<T>::~Optimizer() = default;

template <class T>
template <class Rule, class... Moments>
void Optimizer<T>::apply(const Rule& ordinary, const Rule& orthogonal, ParameterSet<T>& parameters,
                         const Update& update, Moments*... moments) const {
  T* const values = parameters.values().data();
  const T* const gradients = parameters.gradients().data();
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) {
      return cuda::update<T>({.kinds = kinds_,
                              .gradient_scale = update.gradient_scale,
                              .halted = update.halted,
                              .values = values,
                              .gradients = gradients},
                             ordinary, orthogonal, moments...);
    }
  }
  const T scale = update.gradient_scale.empty() ? T{1} : static_cast<T>(update.gradient_scale(0));
  parallel_for(static_cast<Index>(pieces_.size()), pieces_per_thread, [&](Index first, Index last) {
    for (Index number = first; number < last; ++number) {
      const Piece& piece = pieces_[static_cast<std::size_t>(number)];
      // Local objects. So the compiler knows that no store into a moment changes them, and can vectorize.
      const Rule rule = piece.kind == ParameterKind::orthogonal ? orthogonal : ordinary;
      T* const value = values;
      const T* const gradient = gradients;
      for (Index i = piece.first; i < piece.last; ++i) rule(value[i], scale * gradient[i], moments[i]...);
    }
  });
}

template <class T>
template <class Rule>
void Optimizer<T>::step_points(const Rule& rule, ParameterSet<T>& parameters, const Update& update) {
  for (const auto& point : points_) {
    const Index first = point->offset();
    const auto moment = [&](std::size_t i) {
      return i < moments_.size() ? moments_[i].values.data() + first : nullptr;
    };
    point->step(rule, {.value = parameters.values().data() + first,
                       .gradient = parameters.gradients().data() + first,
                       .gradient_scale = update.gradient_scale.data(),
                       .halted = update.halted.data(),
                       .first_moment = moment(0),
                       .second_moment = moment(1)});
  }
}

template <class T>
void Optimizer<T>::step(ParameterSet<T>& parameters, const Update& update) {
  check_shape("flat parameter buffer", parameters.values().shape(), Shape{count_});
  if (!(update.schedule_factor >= 0 && std::isfinite(update.schedule_factor))) {
    throw ValueError(fmt::format("{}: the schedule's factor is {}; expected a number, 0 or more", name(),
                                 update.schedule_factor));
  }
  const auto check_place = [&](const char* what, const Shape& shape, Device device) {
    if (shape.count() == 0) return;
    check_shape(what, shape, {1});
    if (device == device_) return;
    throw DeviceError(
        fmt::format("{}: {} lies in memory of {}, the parameters in that of {}; expected one device", name(),
                    what, to_string(device), to_string(device_)));
  };
  check_place("gradient_scale", update.gradient_scale.shape(), update.gradient_scale.device());
  check_place("halted", update.halted.shape(), update.halted.device());
  ++steps_;
  if (!device_.is_cuda() && !update.halted.empty() && update.halted(0) != 0) return;
  std::visit(
      [&](const auto& options) {
        const auto rule = [&](ParameterKind kind) {
          return rule_of<T>(options, {steps_, kind, update.schedule_factor});
        };
        const auto apply_with = [&](auto*... moments) {
          apply(rule(ParameterKind::ordinary), rule(ParameterKind::orthogonal), parameters, update,
                moments...);
        };
        const auto moment = [&](std::size_t i) { return moments_[i].values.data(); };
        using Rule = decltype(rule(ParameterKind::ordinary));
        if constexpr (std::is_invocable_v<Rule, T&, T>) {
          if (moments_.empty()) apply_with();
        }
        if constexpr (std::is_invocable_v<Rule, T&, T, T&>) {
          if (moments_.size() == 1) apply_with(moment(0));
        }
        if constexpr (std::is_invocable_v<Rule, T&, T, T&, T&>) apply_with(moment(0), moment(1));
        if constexpr (RiemannianOptions<std::remove_cvref_t<decltype(options)>>) {
          step_points(rule_of<double>(options, {steps_, ParameterKind::stiefel, update.schedule_factor}),
                      parameters, update);
        }
      },
      options_);
}

template <class T>
std::vector<std::pair<std::string, TensorView<T>>> Optimizer<T>::state() {
  std::vector<std::pair<std::string, TensorView<T>>> views;
  for (Moment& moment : moments_) views.emplace_back(moment.name, moment.values.view());
  return views;
}

template <class T>
void Optimizer<T>::set_steps(std::int64_t steps) {
  if (steps < 0)
    throw ValueError(fmt::format("{}: {} steps taken so far; expected 0 or more", name(), steps));
  steps_ = steps;
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace orthornn
