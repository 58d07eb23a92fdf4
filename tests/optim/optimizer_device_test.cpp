#include <array>
#include <initializer_list>
#include <limits>

#include "orthornn/optim/gradient_scale.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

template <class T>
ParameterSet<T> make_parameters(Device device) {
  ParameterSet<T> parameters;
  parameters.add("input/bias", Shape{3});
  parameters.add("cell/reflection_vectors", Shape{50, 61}, ParameterKind::orthogonal);
  parameters.add("readout/weights", Shape{901});
  parameters.add("cell/generator", Shape{1, 1}, ParameterKind::orthogonal);
  parameters.allocate(device);
  copy<T>(normal_tensor<T>(parameters.values().shape(), 3), parameters.values());
  return parameters;
}

const OptimizerOptions all_optimizers[] = {
    Sgd{.weight_decay = 0.1},      Sgd{.lr_orthogonal = 0.0, .momentum = 0.9, .weight_decay = 0.1},
    RmsProp{.weight_decay = 0.1},  Adam{.lr_orthogonal = 0.25, .weight_decay = 0.1},
    AdamW{.lr_orthogonal = 0.25},  Rgd{.momentum = 0.9},
    RgdAdam{.lr_orthogonal = 0.25}};

}  // namespace

TEMPLATE_TEST_CASE("every optimizer does the same on a GPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const OptimizerOptions& options : all_optimizers) {
    auto here = make_parameters<T>(Device::cpu());
    auto there = make_parameters<T>(*device);
    const auto optimizer_here = make_optimizer<T>(options, here);
    const auto optimizer_there = make_optimizer<T>(options, there);
    for (int step = 0; step < 4; ++step) {
      const Tensor<T> gradients =
          normal_tensor<T>(here.values().shape(), 10 + static_cast<std::uint64_t>(step));
      copy<T>(gradients, here.gradients());
      copy<T>(gradients, there.gradients());
      optimizer_here->step(here, {.schedule_factor = 0.5});
      optimizer_there->step(there, {.schedule_factor = 0.5});
    }
    CAPTURE(optimizer_here->name(), options.index());
    // One formula in one order; what differs is which products the compilers fuse with sums.
    CHECK(relative_error(there.values().copy(Device::cpu()), here.values()) <= tolerance::rounding<T>(4));
    const auto state = optimizer_here->state();
    REQUIRE(optimizer_there->state().size() == state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      Tensor<T> moment(state[i].second.shape());
      copy<T>(optimizer_there->state()[i].second, moment);
      CHECK(relative_error(moment, state[i].second) <= tolerance::rounding<T>(4));
    }
  }
}

TEST_CASE("a halted step on a GPU changes nothing", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const OptimizerOptions& options : all_optimizers) {
    auto parameters = make_parameters<float>(*device);
    const auto optimizer = make_optimizer<float>(options, parameters);
    copy<float>(normal_tensor<float>(parameters.values().shape(), 10), parameters.gradients());
    Tensor<std::int64_t> halted(Shape{1});
    halted(0) = 7;
    const Tensor<float> before = parameters.values().copy(Device::cpu());
    Tensor<std::int64_t> halted_there = halted.copy(*device);
    optimizer->step(parameters, {.halted = halted_there});
    CHECK(same_bits(parameters.values().copy(Device::cpu()), before));
    for (const auto& [name, moment] : optimizer->state()) {
      Tensor<float> copied(moment.shape());
      copy<float>(moment, copied);
      CHECK(frobenius_norm(copied) == 0);
    }
    halted(0) = 0;
    halted_there = halted.copy(*device);
    optimizer->step(parameters, {.halted = halted_there});
    CHECK_FALSE(same_bits(parameters.values().copy(Device::cpu()), before));
  }
}

TEMPLATE_TEST_CASE("the scale of gradients on a GPU is that of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const Index count : {0, 1, 257, 70000}) {
    const Tensor<T> gradients = normal_tensor<T>({count}, 4);
    const Tensor<T> there = gradients.copy(*device);
    const double norm = frobenius_norm(gradients) / 3;
    for (const double max_norm : {0.0, 0.5 * norm, 2 * norm}) {
      CAPTURE(count, max_norm);
      const GradientScale expected = gradient_scale<T>(gradients, 3, max_norm);
      const GradientScale found = gradient_scale<T>(there, 3, max_norm);
      CHECK(found.norm == Approx(expected.norm).epsilon(tolerance::rounding<double>(count)));
      CHECK(found.factor == Approx(expected.factor).epsilon(tolerance::rounding<double>(count)));
    }
  }
  Tensor<T> gradients = normal_tensor<T>({300}, 4);
  gradients(299) = std::numeric_limits<T>::infinity();
  const GradientScale endless = gradient_scale<T>(gradients.copy(*device), 1, 1);
  CHECK(std::isinf(endless.norm));
  CHECK(endless.factor == 1);
}

TEST_CASE("an optimizer on a GPU multiplies gradients by their scale", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const OptimizerOptions& options : all_optimizers) {
    CAPTURE(options.index());
    auto scaled = make_parameters<float>(*device), plain = make_parameters<float>(*device);
    const Tensor<float> gradients = normal_tensor<float>(scaled.values().shape(), 10);
    Tensor<float> eighths = gradients.copy();
    for (float& x : eighths) x /= 8;
    copy<float>(gradients, scaled.gradients());
    copy<float>(eighths, plain.gradients());
    Tensor<double> scale(Shape{1});
    scale(0) = 0.125;  // a power of two rounds nothing
    const Tensor<double> scale_there = scale.copy(*device);
    make_optimizer<float>(options, scaled)->step(scaled, {.gradient_scale = scale_there});
    make_optimizer<float>(options, plain)->step(plain);
    CHECK(same_bits(scaled.values().copy(Device::cpu()), plain.values().copy(Device::cpu())));
  }
}
