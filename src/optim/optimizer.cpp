#include "orthornn/optim/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/parallel.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

// Elements of a piece: enough work to hide the cost of handing it out, few enough to balance the threads.
constexpr Index piece_size = 4096;
// Fewer pieces than this a thread are not worth waking it.
constexpr Index pieces_per_thread = 4;

template <class Piece, class Body>
void for_each_piece(const std::vector<Piece>& pieces, const Body& body) {
  parallel_for(static_cast<Index>(pieces.size()), pieces_per_thread, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) body(pieces[static_cast<std::size_t>(i)]);
  });
}

template <class Options>
double learning_rate(const Options& options, ParameterKind kind) {
  return kind == ParameterKind::orthogonal ? options.lr_orthogonal.value_or(options.lr / 10) : options.lr;
}

template <class Options>
double weight_decay(const Options& options, ParameterKind kind) {
  return kind == ParameterKind::orthogonal ? 0 : options.weight_decay;
}

// The scalars of each formula are computed in double and rounded once: 1 - beta2 has no digits to lose in
// float. They are made inside of each piece, where the compiler sees that no store into a moment changes
// them, and can take several elements at a time.

template <class T>
class SgdOptimizer final : public Optimizer<T> {
 public:
  SgdOptimizer(const Sgd& options, const ParameterSet<T>& parameters)
      : Optimizer<T>(parameters), options_(options) {
    if (options.momentum > 0) momentum_ = this->moment();
  }

  std::string name() const override { return "sgd"; }

  std::vector<std::pair<std::string, TensorView<T>>> state() override {
    if (momentum_.empty()) return {};
    return {{"momentum", momentum_.view()}};
  }

 private:
  void update(T* values, const T* gradients, double schedule_factor) override {
    for_each_piece(this->pieces(), [&](const auto& piece) {
      const T rate = static_cast<T>(learning_rate(options_, piece.kind) * schedule_factor);
      const T decay = static_cast<T>(weight_decay(options_, piece.kind));
      if (momentum_.empty()) {
        for (Index i = piece.first; i < piece.last; ++i) {
          values[i] -= rate * (gradients[i] + decay * values[i]);
        }
        return;
      }
      const T keep = static_cast<T>(options_.momentum);
      T* const momentum = momentum_.data();
      for (Index i = piece.first; i < piece.last; ++i) {
        momentum[i] = keep * momentum[i] + (gradients[i] + decay * values[i]);
        values[i] -= rate * momentum[i];
      }
    });
  }

  Sgd options_;
  Tensor<T> momentum_;
};

template <class T>
class RmsPropOptimizer final : public Optimizer<T> {
 public:
  RmsPropOptimizer(const RmsProp& options, const ParameterSet<T>& parameters)
      : Optimizer<T>(parameters), options_(options), square_average_(this->moment()) {}

  std::string name() const override { return "rmsprop"; }

  std::vector<std::pair<std::string, TensorView<T>>> state() override {
    return {{"square_average", square_average_.view()}};
  }

 private:
  void update(T* values, const T* gradients, double schedule_factor) override {
    T* const square = square_average_.data();
    for_each_piece(this->pieces(), [&](const auto& piece) {
      const T keep = static_cast<T>(options_.decay);
      const T take = static_cast<T>(1 - options_.decay);
      const T epsilon = static_cast<T>(options_.epsilon);
      const T rate = static_cast<T>(learning_rate(options_, piece.kind) * schedule_factor);
      const T decay = static_cast<T>(weight_decay(options_, piece.kind));
      for (Index i = piece.first; i < piece.last; ++i) {
        const T gradient = gradients[i] + decay * values[i];
        square[i] = keep * square[i] + take * gradient * gradient;
        values[i] -= rate * gradient / (std::sqrt(square[i]) + epsilon);
      }
    });
  }

  RmsProp options_;
  Tensor<T> square_average_;
};

// Adam and AdamW: the same moments, the weight decay at another place.
template <class T, class Options>
class AdamOptimizer final : public Optimizer<T> {
 public:
  AdamOptimizer(const Options& options, const ParameterSet<T>& parameters)
      : Optimizer<T>(parameters),
        options_(options),
        first_moment_(this->moment()),
        second_moment_(this->moment()) {}

  std::string name() const override { return decoupled ? "adamw" : "adam"; }

  std::vector<std::pair<std::string, TensorView<T>>> state() override {
    return {{"first_moment", first_moment_.view()}, {"second_moment", second_moment_.view()}};
  }

 private:
  static constexpr bool decoupled = std::is_same_v<Options, AdamW>;

  void update(T* values, const T* gradients, double schedule_factor) override {
    const double steps = static_cast<double>(this->steps());
    const double correction1 = 1 - std::pow(options_.beta1, steps);
    const double correction2 = 1 - std::pow(options_.beta2, steps);
    T* const first = first_moment_.data();
    T* const second = second_moment_.data();
    for_each_piece(this->pieces(), [&](const auto& piece) {
      const T keep1 = static_cast<T>(options_.beta1);
      const T take1 = static_cast<T>(1 - options_.beta1);
      const T keep2 = static_cast<T>(options_.beta2);
      const T take2 = static_cast<T>(1 - options_.beta2);
      const T root_scale = static_cast<T>(1 / std::sqrt(correction2));
      const T epsilon = static_cast<T>(options_.epsilon);
      const double rate = learning_rate(options_, piece.kind) * schedule_factor;
      const double lambda = weight_decay(options_, piece.kind);
      const T corrected_rate = static_cast<T>(rate / correction1);
      const T shrink = static_cast<T>(decoupled ? 1 - rate * lambda : 1);
      const T decay = static_cast<T>(decoupled ? 0 : lambda);
      for (Index i = piece.first; i < piece.last; ++i) {
        const T gradient = gradients[i] + decay * values[i];
        first[i] = keep1 * first[i] + take1 * gradient;
        second[i] = keep2 * second[i] + take2 * gradient * gradient;
        values[i] =
            shrink * values[i] - corrected_rate * first[i] / (std::sqrt(second[i]) * root_scale + epsilon);
      }
    });
  }

  Options options_;
  Tensor<T> first_moment_;
  Tensor<T> second_moment_;
};

// NaN fails every comparison, so each condition is stated as what must hold.
void require(bool holds, const char* optimizer, const char* option, double value, const char* domain) {
  if (!holds) throw ValueError(fmt::format("{}: {} is {}; expected {}", optimizer, option, value, domain));
}

void require_positive(const char* optimizer, const char* option, double value) {
  require(value > 0 && std::isfinite(value), optimizer, option, value, "a positive number");
}

void require_not_negative(const char* optimizer, const char* option, double value) {
  require(value >= 0 && std::isfinite(value), optimizer, option, value, "0 or more");
}

void require_fraction(const char* optimizer, const char* option, double value) {
  require(value >= 0 && value < 1, optimizer, option, value, "a number in [0, 1)");
}

template <class Options>
void check_rates(const char* optimizer, const Options& options) {
  require_positive(optimizer, "lr", options.lr);
  require_not_negative(optimizer, "lr_orthogonal", options.lr_orthogonal.value_or(0));
  require_not_negative(optimizer, "weight_decay", options.weight_decay);
}

template <class Options>
void check_adam(const char* optimizer, const Options& options) {
  check_rates(optimizer, options);
  require_fraction(optimizer, "beta1", options.beta1);
  require_fraction(optimizer, "beta2", options.beta2);
  require_positive(optimizer, "epsilon", options.epsilon);
}

// One overload an optimizer: where options become an object.

template <class T>
std::unique_ptr<Optimizer<T>> make(const Sgd& options, const ParameterSet<T>& parameters) {
  check_rates("sgd", options);
  require_fraction("sgd", "momentum", options.momentum);
  return std::make_unique<SgdOptimizer<T>>(options, parameters);
}

template <class T>
std::unique_ptr<Optimizer<T>> make(const RmsProp& options, const ParameterSet<T>& parameters) {
  check_rates("rmsprop", options);
  require_fraction("rmsprop", "decay", options.decay);
  require_positive("rmsprop", "epsilon", options.epsilon);
  return std::make_unique<RmsPropOptimizer<T>>(options, parameters);
}

template <class T>
std::unique_ptr<Optimizer<T>> make(const Adam& options, const ParameterSet<T>& parameters) {
  check_adam("adam", options);
  return std::make_unique<AdamOptimizer<T, Adam>>(options, parameters);
}

template <class T>
std::unique_ptr<Optimizer<T>> make(const AdamW& options, const ParameterSet<T>& parameters) {
  check_adam("adamw", options);
  return std::make_unique<AdamOptimizer<T, AdamW>>(options, parameters);
}

}  // namespace

template <class T>
Optimizer<T>::Optimizer(const ParameterSet<T>& parameters)
    : count_(parameters.count()), device_(parameters.values().device()) {
  if (parameters.values().size() != count_) {
    throw ValueError("an optimizer was made for parameters that have no memory yet; call allocate() first");
  }
  for (std::size_t i = 0; i < parameters.list().size();) {
    // Neighbours of one kind are one run, so that many small biases do not make many small pieces.
    const ParameterKind kind = parameters.list()[i].kind;
    Index first = parameters.list()[i].offset;
    while (i < parameters.list().size() && parameters.list()[i].kind == kind) ++i;
    const Index last = i < parameters.list().size() ? parameters.list()[i].offset : count_;
    for (; first < last; first += piece_size) {
      pieces_.push_back({first, std::min(last, first + piece_size), kind});
    }
  }
}

template <class T>
void Optimizer<T>::step(ParameterSet<T>& parameters, double schedule_factor) {
  check_shape("flat parameter buffer", parameters.values().shape(), Shape{count_});
  if (!(schedule_factor >= 0 && std::isfinite(schedule_factor))) {
    throw ValueError(fmt::format("{}: the schedule's factor is {}; expected a number, 0 or more", name(),
                                 schedule_factor));
  }
  ++steps_;
  update(parameters.values().data(), parameters.gradients().data(), schedule_factor);
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
  return std::visit([&](const auto& chosen) { return make(chosen, parameters); }, options);
}

template class Optimizer<float>;
template class Optimizer<double>;
template std::unique_ptr<Optimizer<float>> make_optimizer(const OptimizerOptions&,
                                                          const ParameterSet<float>&);
template std::unique_ptr<Optimizer<double>> make_optimizer(const OptimizerOptions&,
                                                           const ParameterSet<double>&);

}  // namespace orthornn
