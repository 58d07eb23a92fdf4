#include "orthornn/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"
#include "support/same_bits.hpp"

using namespace orthornn;
using orthornn::testing::same_bits;
using orthornn::testing::Threads;

namespace {

// Ordinary and orthogonal parameters in turn, the middle ones longer than a piece of work (4096) and no
// multiple of it.
template <class T>
ParameterSet<T> make_parameters() {
  ParameterSet<T> parameters;
  parameters.add("input/bias", Shape{3});
  parameters.add("input/weights", Shape{2, 5});
  parameters.add("cell/reflection_vectors", Shape{50, 601}, ParameterKind::orthogonal);
  parameters.add("readout/weights", Shape{9001});
  parameters.add("cell/generator", Shape{1, 1}, ParameterKind::orthogonal);
  parameters.allocate(Device::cpu());
  RandomStream random(3, RandomPurpose::initialization);
  for (T& value : parameters.values()) value = static_cast<T>(random.normal());
  return parameters;
}

template <class T>
ParameterSet<T> one_parameter(T value, ParameterKind kind = ParameterKind::ordinary) {
  ParameterSet<T> parameters;
  parameters.add("only", Shape{1}, kind);
  parameters.allocate(Device::cpu());
  parameters.values()(0) = value;
  return parameters;
}

template <class T>
void fill_gradients(ParameterSet<T>& parameters, int step) {
  RandomStream random(5, RandomPurpose::training, static_cast<std::uint64_t>(step));
  for (T& gradient : parameters.gradients()) gradient = static_cast<T>(random.normal());
}

// The formulas again, as their papers write them: one number, all of its gradients, double throughout.
using GradientHistory = std::vector<double>;
using ScheduleFactors = std::vector<double>;

double textbook(const Sgd& o, double lr, double lambda, double theta, const GradientHistory& g,
                const ScheduleFactors& factors) {
  double velocity = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    velocity = o.momentum * velocity + g[t] + lambda * theta;
    theta = theta - lr * factors[t] * velocity;
  }
  return theta;
}

/// Of what is no point of a manifold.
double textbook(const Rgd& o, double lr, double lambda, double theta, const GradientHistory& g,
                const ScheduleFactors& factors) {
  return textbook(Sgd{.momentum = o.momentum}, lr, lambda, theta, g, factors);
}

double textbook(const RmsProp& o, double lr, double lambda, double theta, const GradientHistory& g,
                const ScheduleFactors& factors) {
  double mean_square = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    const double gradient = g[t] + lambda * theta;
    mean_square = o.decay * mean_square + (1 - o.decay) * std::pow(gradient, 2);
    theta = theta - lr * factors[t] * gradient / (std::sqrt(mean_square) + o.epsilon);
  }
  return theta;
}

template <class Options>
double textbook(const Options& o, double lr, double lambda, double theta, const GradientHistory& g,
                const ScheduleFactors& factors) {
  const bool decoupled = std::is_same_v<Options, AdamW>;
  double m = 0;
  double v = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double t = static_cast<double>(i + 1);
    const double rate = lr * factors[i];
    const double gradient = decoupled ? g[i] : g[i] + lambda * theta;
    m = o.beta1 * m + (1 - o.beta1) * gradient;
    v = o.beta2 * v + (1 - o.beta2) * gradient * gradient;
    const double m_hat = m / (1 - std::pow(o.beta1, t));
    const double v_hat = v / (1 - std::pow(o.beta2, t));
    theta = theta - rate * (m_hat / (std::sqrt(v_hat) + o.epsilon) + (decoupled ? lambda * theta : 0));
  }
  return theta;
}

const std::vector<OptimizerOptions> every_optimizer = {
    Sgd{.lr = 0.1},
    Sgd{.lr = 0.1, .lr_orthogonal = 0.03, .momentum = 0.9, .weight_decay = 0.2},
    RmsProp{.lr = 0.01, .lr_orthogonal = 0.002, .decay = 0.9, .epsilon = 0.01, .weight_decay = 0.3},
    Adam{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.97, .epsilon = 0.02, .weight_decay = 0.3},
    AdamW{
        .lr = 0.02, .lr_orthogonal = 0.01, .beta1 = 0.8, .beta2 = 0.97, .epsilon = 0.02, .weight_decay = 0.3},
    Rgd{.lr = 0.1},
    Rgd{.lr = 0.1, .lr_orthogonal = 0.03, .momentum = 0.9, .weight_decay = 0.2},
    RgdAdam{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.97, .epsilon = 0.02, .weight_decay = 0.3}};

}  // namespace

TEMPLATE_TEST_CASE("Every optimizer follows its textbook formula", "[optimizer]", float, double) {
  constexpr int steps = 7;
  const ScheduleFactors factors{0.5, 1, 1, 0.7, 0.3, 0, 0.1};
  for (const OptimizerOptions& options : every_optimizer) {
    ParameterSet<TestType> parameters = make_parameters<TestType>();
    const Tensor<TestType> start = parameters.values().copy();
    const auto optimizer = make_optimizer(options, parameters);
    std::vector<Tensor<TestType>> gradients;
    for (int step = 0; step < steps; ++step) {
      fill_gradients(parameters, step);
      gradients.push_back(parameters.gradients().copy());
      optimizer->step(parameters, {.schedule_factor = factors[static_cast<std::size_t>(step)]});
    }
    CHECK(optimizer->steps() == steps);

    double worst = 0;
    for (const Parameter& parameter : parameters.list()) {
      const bool orthogonal = parameter.kind == ParameterKind::orthogonal;
      for (Index i = parameter.offset; i < parameter.offset + parameter.shape.count(); ++i) {
        GradientHistory history;
        for (const auto& gradient : gradients) history.push_back(gradient(i));
        const double expected = std::visit(
            [&](const auto& o) {
              const double lr = orthogonal ? o.lr_orthogonal.value_or(o.lr / 10) : o.lr;
              const double lambda = orthogonal ? 0 : o.weight_decay;
              return textbook(o, lr, lambda, start(i), history, factors);
            },
            options);
        worst = std::max(worst, std::abs(static_cast<double>(parameters.values()(i)) - expected));
      }
    }
    // Values stay below 8 (normal start, at most 0.5 x 4 a step for a few): each of 7 steps rounds a value of
    // that size a few times, eps / 2 each.
    CAPTURE(optimizer->name(), worst);
    CHECK(worst <= steps * 8 * std::numeric_limits<TestType>::epsilon());
  }
}

TEST_CASE("First steps that can be done by hand", "[optimizer]") {
  // In double each of these takes a handful of operations on numbers near 1.
  const auto after_one_step = [](const OptimizerOptions& options, double value, double gradient) {
    ParameterSet<double> parameters = one_parameter(value);
    parameters.gradients()(0) = gradient;
    const auto optimizer = make_optimizer(options, parameters);
    optimizer->step(parameters);
    return parameters.values()(0);
  };
  const auto close = [](double found, double expected) { return std::abs(found - expected) <= 1e-15; };

  CHECK(close(after_one_step(Sgd{.lr = 0.5}, 2, 3), 0.5));
  CHECK(close(after_one_step(Sgd{.lr = 0.5, .momentum = 0.9}, 2, 3), 0.5));        // no history yet
  CHECK(close(after_one_step(Sgd{.lr = 0.5, .weight_decay = 0.25}, 2, 3), 0.25));  // gradient 3.5
  // Mean square (1 - 0.75) 16 = 4, root 2, epsilon outside the root: 4 / (2 + 2) = 1.
  CHECK(close(after_one_step(RmsProp{.lr = 0.5, .decay = 0.75, .epsilon = 2}, 2, 4), 1.5));
  // Bias correction undoes both betas: 4 / (4 + 4) = 1/2, whatever they are.
  CHECK(close(after_one_step(Adam{.lr = 0.5, .beta1 = 0.3, .beta2 = 0.6, .epsilon = 4}, 2, 4), 1.75));
  // The decay joins the gradient, 3.5 + 0.25 x 2 = 4, or takes 0.5 x 0.25 x 2 = 0.25 beside it.
  CHECK(close(after_one_step(Adam{.lr = 0.5, .epsilon = 4, .weight_decay = 0.25}, 2, 3.5), 1.75));
  CHECK(close(after_one_step(AdamW{.lr = 0.5, .epsilon = 4, .weight_decay = 0.25}, 2, 4), 1.5));
}

TEST_CASE("Momentum keeps what it had", "[optimizer]") {
  ParameterSet<double> parameters = one_parameter(1.0);
  const auto optimizer = make_optimizer(Sgd{.lr = 1, .momentum = 0.5}, parameters);
  parameters.gradients()(0) = 1;
  optimizer->step(parameters);
  CHECK(parameters.values()(0) == 0);
  parameters.gradients()(0) = 0;
  optimizer->step(parameters);
  CHECK(parameters.values()(0) == -0.5);
  optimizer->step(parameters);
  CHECK(parameters.values()(0) == -0.75);
}

TEST_CASE("Orthogonal parameters have a rate of their own, by default a tenth", "[optimizer]") {
  const auto moved = [](const Sgd& options) {
    ParameterSet<double> parameters = one_parameter(0.0, ParameterKind::orthogonal);
    parameters.gradients()(0) = 1;
    make_optimizer(OptimizerOptions(options), parameters)->step(parameters);
    return -parameters.values()(0);
  };
  CHECK(moved(Sgd{.lr = 0.5}) == 0.05);
  CHECK(moved(Sgd{.lr = 0.5, .lr_orthogonal = 2}) == 2);
  CHECK(moved(Sgd{.lr = 0.5, .lr_orthogonal = 0}) == 0);
}

TEST_CASE("Weight decay never touches orthogonal parameters", "[optimizer]") {
  const std::vector<OptimizerOptions> decaying = {
      Sgd{.weight_decay = 0.5}, Sgd{.momentum = 0.9, .weight_decay = 0.5}, RmsProp{.weight_decay = 0.5},
      Adam{.weight_decay = 0.5}, AdamW{.weight_decay = 0.5}};
  for (const OptimizerOptions& options : decaying) {
    ParameterSet<float> parameters = make_parameters<float>();
    const Tensor<float> start = parameters.values().copy();
    make_optimizer(options, parameters)->step(parameters);  // all gradients are zero
    for (const Parameter& parameter : parameters.list()) {
      bool all_kept = true;
      bool all_moved = true;
      for (Index i = parameter.offset; i < parameter.offset + parameter.shape.count(); ++i) {
        // An update below half a unit in the last place would look like none.
        if (start(i) == parameters.values()(i)) {
          all_moved = false;
        } else {
          all_kept = false;
        }
      }
      CAPTURE(options.index(), parameter.name);
      if (parameter.kind == ParameterKind::orthogonal) {
        CHECK(all_kept);
      } else {
        CHECK(all_moved);
      }
    }
  }
}

TEMPLATE_TEST_CASE("An optimizer that goes on from saved state gives the same bits", "[optimizer]", float,
                   double) {
  for (const OptimizerOptions& options : every_optimizer) {
    ParameterSet<TestType> parameters = make_parameters<TestType>();
    const auto optimizer = make_optimizer(options, parameters);
    for (int step = 0; step < 3; ++step) {
      fill_gradients(parameters, step);
      optimizer->step(parameters);
    }

    ParameterSet<TestType> resumed = make_parameters<TestType>();
    copy<TestType>(parameters.values(), resumed.values().view());
    const auto resumed_optimizer = make_optimizer(options, resumed);
    const auto saved = optimizer->state();
    const auto restored = resumed_optimizer->state();
    REQUIRE(saved.size() == restored.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      CHECK(saved[i].first == restored[i].first);
      CHECK(saved[i].second.shape() == Shape{parameters.count()});
      copy<TestType>(saved[i].second, restored[i].second);
    }
    resumed_optimizer->set_steps(optimizer->steps());

    for (int step = 3; step < 6; ++step) {
      fill_gradients(parameters, step);
      fill_gradients(resumed, step);
      optimizer->step(parameters);
      resumed_optimizer->step(resumed);
    }
    CAPTURE(optimizer->name());
    CHECK(same_bits(parameters.values(), resumed.values()));
    CHECK(resumed_optimizer->steps() == 6);
  }
}

TEMPLATE_TEST_CASE("The number of threads changes no bit of an optimizer step", "[optimizer]", float,
                   double) {
  const auto train = [](const OptimizerOptions& options, int thread_number) {
    const Threads threads(thread_number);
    ParameterSet<TestType> parameters = make_parameters<TestType>();
    const auto optimizer = make_optimizer(options, parameters);
    for (int step = 0; step < 3; ++step) {
      fill_gradients(parameters, step);
      optimizer->step(parameters);
    }
    return parameters.values().copy();
  };
  for (const OptimizerOptions& options : every_optimizer) {
    const Tensor<TestType> one = train(options, 1);
    CHECK(same_bits(one, train(options, 2)));
    CHECK(same_bits(one, train(options, 3)));
  }
}

TEST_CASE("Every optimizer option out of its domain is an error", "[optimizer]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const ParameterSet<float> parameters = make_parameters<float>();
  const std::vector<OptimizerOptions> wrong = {Sgd{.lr = 0},
                                               Sgd{.lr = -1},
                                               Sgd{.lr = nan},
                                               Sgd{.lr = infinity},
                                               Sgd{.lr_orthogonal = -1},
                                               Sgd{.momentum = 1},
                                               Sgd{.momentum = -0.1},
                                               Sgd{.weight_decay = -1},
                                               RmsProp{.lr = 0},
                                               RmsProp{.decay = 1},
                                               RmsProp{.epsilon = 0},
                                               RmsProp{.weight_decay = nan},
                                               Adam{.lr = 0},
                                               Adam{.beta1 = 1},
                                               Adam{.beta2 = 1},
                                               Adam{.epsilon = -1},
                                               AdamW{.lr = 0},
                                               AdamW{.beta1 = -0.1},
                                               AdamW{.beta2 = nan},
                                               AdamW{.lr_orthogonal = nan},
                                               Rgd{.lr = 0},
                                               Rgd{.momentum = 1},
                                               RgdAdam{.beta2 = 1},
                                               RgdAdam{.epsilon = 0}};
  for (const OptimizerOptions& options : wrong)
    CHECK_THROWS_AS(make_optimizer(options, parameters), ValueError);

  std::string message;
  try {
    make_optimizer(OptimizerOptions(Adam{.beta2 = 1.5}), parameters);
  } catch (const ValueError& error) {
    message = error.what();
  }
  CHECK(message == "adam: beta2 is 1.5; expected a number in [0, 1)");
}

TEST_CASE("Parameters and steps that do not fit an optimizer change nothing", "[optimizer]") {
  ParameterSet<float> unallocated;
  unallocated.add("only", Shape{2});
  CHECK_THROWS_AS(make_optimizer(OptimizerOptions(Sgd{}), unallocated), ValueError);

  ParameterSet<float> parameters = one_parameter(1.0F);
  const auto optimizer = make_optimizer(OptimizerOptions(Sgd{}), parameters);
  ParameterSet<float> others = make_parameters<float>();
  CHECK_THROWS_AS(optimizer->step(others), ShapeError);
  CHECK_THROWS_AS(optimizer->step(parameters, {.schedule_factor = -0.5}), ValueError);
  CHECK_THROWS_AS(optimizer->step(parameters, {.schedule_factor = std::numeric_limits<double>::quiet_NaN()}),
                  ValueError);
  CHECK_THROWS_AS(optimizer->set_steps(-1), ValueError);
  CHECK(optimizer->steps() == 0);
  CHECK(parameters.values()(0) == 1.0F);
}

TEST_CASE("An optimizer can step a model without parameters", "[optimizer]") {
  ParameterSet<double> none;
  none.allocate(Device::cpu());
  for (const OptimizerOptions& options : every_optimizer) {
    const auto optimizer = make_optimizer(options, none);
    optimizer->step(none);
    CHECK(optimizer->steps() == 1);
  }
}

TEST_CASE("constants that the parameters' type cannot hold are refused", "[optimizer]") {
  ParameterSet<float> floats;
  floats.add("x", {1});
  floats.allocate(Device::cpu());
  ParameterSet<double> doubles;
  doubles.add("x", {1});
  doubles.allocate(Device::cpu());
  for (const OptimizerOptions& options :
       {OptimizerOptions(Adam{.epsilon = 1e-50}), OptimizerOptions(AdamW{.epsilon = 1e-50}),
        OptimizerOptions(RmsProp{.epsilon = 1e-50}), OptimizerOptions(Adam{.beta1 = 0.999999999}),
        OptimizerOptions(AdamW{.beta2 = 0.999999999}), OptimizerOptions(RmsProp{.decay = 0.999999999}),
        OptimizerOptions(Sgd{.momentum = 0.999999999})}) {
    CHECK_THROWS_AS(make_optimizer(options, floats), ValueError);
    CHECK_NOTHROW(make_optimizer(options, doubles));
  }
}
