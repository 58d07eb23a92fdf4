#include "orthornn/optim/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/back_end.hpp"
#include "core/parallel.hpp"
#include "cuda/optim/optimizer.hpp"
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
  return kind == ParameterKind::orthogonal ? options.lr_orthogonal.value_or(options.lr / 10) : options.lr;
}

template <class Options>
double weight_decay(const Options& options, ParameterKind kind) {
  return kind == ParameterKind::orthogonal ? 0 : options.weight_decay;
}

template <class T>
class SgdOptimizer final : public Optimizer<T> {
 public:
  SgdOptimizer(const Sgd& options, const ParameterSet<T>& parameters)
      : Optimizer<T>(parameters), options_(options) {
    if (options.momentum > 0) momentum_ = this->moment();
  }

  std::string name() const override { return Sgd::name; }

  std::vector<std::pair<std::string, TensorView<T>>> state() override {
    if (momentum_.empty()) return {};
    return {{"momentum", momentum_.view()}};
  }

 private:
  void take(const typename Optimizer<T>::Step& step) override {
    const auto rate = [&](ParameterKind kind) {
      return static_cast<T>(learning_rate(options_, kind) * step.update.schedule_factor);
    };
    const auto decay = [&](ParameterKind kind) { return static_cast<T>(weight_decay(options_, kind)); };
    if (momentum_.empty()) {
      const auto rule = [&](ParameterKind kind) {
        return SgdRule<T>{.rate = rate(kind), .decay = decay(kind)};
      };
      return this->apply(rule, step);
    }
    const auto rule = [&](ParameterKind kind) {
      return MomentumRule<T>{
          .rate = rate(kind), .decay = decay(kind), .keep = static_cast<T>(options_.momentum)};
    };
    this->apply(rule, step, momentum_.data());
  }

  Sgd options_;
  Tensor<T> momentum_;
};

template <class T>
class RmsPropOptimizer final : public Optimizer<T> {
 public:
  RmsPropOptimizer(const RmsProp& options, const ParameterSet<T>& parameters)
      : Optimizer<T>(parameters), options_(options), square_average_(this->moment()) {}

  std::string name() const override { return RmsProp::name; }

  std::vector<std::pair<std::string, TensorView<T>>> state() override {
    return {{"square_average", square_average_.view()}};
  }

 private:
  void take(const typename Optimizer<T>::Step& step) override {
    const auto rule = [&](ParameterKind kind) {
      return RmsPropRule<T>{
          .rate = static_cast<T>(learning_rate(options_, kind) * step.update.schedule_factor),
          .decay = static_cast<T>(weight_decay(options_, kind)),
          .keep = static_cast<T>(options_.decay),
          .take = static_cast<T>(1 - options_.decay),
          .epsilon = static_cast<T>(options_.epsilon)};
    };
    this->apply(rule, step, square_average_.data());
  }

  RmsProp options_;
  Tensor<T> square_average_;
};

// Adam and AdamW.
template <class T, class Options>
class AdamOptimizer final : public Optimizer<T> {
 public:
  AdamOptimizer(const Options& options, const ParameterSet<T>& parameters)
      : Optimizer<T>(parameters),
        options_(options),
        first_moment_(this->moment()),
        second_moment_(this->moment()) {}

  std::string name() const override { return Options::name; }

  std::vector<std::pair<std::string, TensorView<T>>> state() override {
    return {{"first_moment", first_moment_.view()}, {"second_moment", second_moment_.view()}};
  }

 private:
  static constexpr bool decoupled = std::is_same_v<Options, AdamW>;

  void take(const typename Optimizer<T>::Step& step) override {
    const double steps = static_cast<double>(this->steps());
    const double correction1 = 1 - std::pow(options_.beta1, steps);
    const double correction2 = 1 - std::pow(options_.beta2, steps);
    const auto rule = [&](ParameterKind kind) {
      const double rate = learning_rate(options_, kind) * step.update.schedule_factor;
      const double lambda = weight_decay(options_, kind);
      return AdamRule<T>{.corrected_rate = static_cast<T>(rate / correction1),
                         .root_scale = static_cast<T>(1 / std::sqrt(correction2)),
                         .decay = static_cast<T>(decoupled ? 0 : lambda),
                         .shrink = static_cast<T>(decoupled ? 1 - rate * lambda : 1),
                         .keep1 = static_cast<T>(options_.beta1),
                         .take1 = static_cast<T>(1 - options_.beta1),
                         .keep2 = static_cast<T>(options_.beta2),
                         .take2 = static_cast<T>(1 - options_.beta2),
                         .epsilon = static_cast<T>(options_.epsilon)};
    };
    this->apply(rule, step, first_moment_.data(), second_moment_.data());
  }

  Options options_;
  Tensor<T> first_moment_;
  Tensor<T> second_moment_;
};

// One overload an optimizer: where options become an object.

template <class T>
std::unique_ptr<Optimizer<T>> make(const Sgd& options, const ParameterSet<T>& parameters) {
  return std::make_unique<SgdOptimizer<T>>(options, parameters);
}

template <class T>
std::unique_ptr<Optimizer<T>> make(const RmsProp& options, const ParameterSet<T>& parameters) {
  return std::make_unique<RmsPropOptimizer<T>>(options, parameters);
}

// Adam and AdamW.
template <class T, class Options>
std::unique_ptr<Optimizer<T>> make(const Options& options, const ParameterSet<T>& parameters) {
  return std::make_unique<AdamOptimizer<T, Options>>(options, parameters);
}

}  // namespace

template <class T>
Optimizer<T>::Optimizer(const ParameterSet<T>& parameters)
    : count_(parameters.count()), device_(parameters.values().device()) {
  if (parameters.values().size() != count_) {
    throw ValueError("an optimizer was made for parameters that have no memory yet; call allocate() first");
  }
  for (std::size_t i = 0; i < parameters.list().size();) {
    // Adjacent parameters of one kind form one run: many small biases would make many small pieces.
    const ParameterKind kind = parameters.list()[i].kind;
    Index first = parameters.list()[i].offset;
    while (i < parameters.list().size() && parameters.list()[i].kind == kind) ++i;
    const Index last = i < parameters.list().size() ? parameters.list()[i].offset : count_;
    for (; first < last; first += piece_size) {
      pieces_.push_back({first, std::min(last, first + piece_size), kind});
    }
  }
  if (!device_.is_cuda()) return;
  Tensor<std::uint8_t> is_orthogonal(Shape{count_});
  for (const Piece& piece : pieces_) {
    std::fill(is_orthogonal.data() + piece.first, is_orthogonal.data() + piece.last,
              piece.kind == ParameterKind::orthogonal);
  }
  is_orthogonal_ = is_orthogonal.copy(device_);
}

template <class T>
template <class MakeRule, class... Moments>
void Optimizer<T>::apply(const MakeRule& make_rule, const Step& step, Moments*... moments) const {
  if constexpr (has_cuda_bodies) {
    if (device_.is_cuda()) {
      return cuda::update<T>(is_orthogonal_, step.update.gradient_scale, step.update.halted,
                             make_rule(ParameterKind::ordinary), make_rule(ParameterKind::orthogonal),
                             step.values, step.gradients, moments...);
    }
  }
  const T scale = step.update.gradient_scale.empty() ? T{1} : static_cast<T>(step.update.gradient_scale(0));
  parallel_for(static_cast<Index>(pieces_.size()), pieces_per_thread, [&](Index first, Index last) {
    for (Index number = first; number < last; ++number) {
      const Piece& piece = pieces_[static_cast<std::size_t>(number)];
      // The rule is a local object. So the compiler knows that no store into a moment changes it, and can
      // vectorize.
      const auto rule = make_rule(piece.kind);
      T* const values = step.values;
      const T* const gradients = step.gradients;
      for (Index i = piece.first; i < piece.last; ++i) rule(values[i], scale * gradients[i], moments[i]...);
    }
  });
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
  take({.values = parameters.values().data(), .gradients = parameters.gradients().data(), .update = update});
}

template <class T>
void Optimizer<T>::set_steps(std::int64_t steps) {
  if (steps < 0)
    throw ValueError(fmt::format("{}: {} steps taken so far; expected 0 or more", name(), steps));
  steps_ = steps;
}

template <class T>
std::unique_ptr<Optimizer<T>> make_optimizer(const OptimizerOptions& options,
                                             const ParameterSet<T>& parameters) {
  return std::visit(
      [&](const auto& chosen) {
        // In T, where 0.99999999 is 1, with which a mean would never move, and an epsilon of 1e-50 is 0.
        check_fields<T>(chosen.name, chosen);
        return make(chosen, parameters);
      },
      options);
}

template class Optimizer<float>;
template class Optimizer<double>;
template std::unique_ptr<Optimizer<float>> make_optimizer(const OptimizerOptions&,
                                                          const ParameterSet<float>&);
template std::unique_ptr<Optimizer<double>> make_optimizer(const OptimizerOptions&,
                                                           const ParameterSet<double>&);

}  // namespace orthornn
