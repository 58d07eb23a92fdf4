#include "orthornn/layers/rms_norm_layer.hpp"

#include <cmath>
#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// A layer with a gain and one forward of it.
template <class T>
Tensor<T> normalised(const Tensor<T>& x, const Tensor<T>& gain, double epsilon) {
  ParameterSet<T> parameters;
  RmsNormLayer<T> layer(parameters, "norm", {.epsilon = epsilon}, gain.size());
  parameters.allocate(Device::cpu());
  copy<T>(gain, parameters.value(parameters.find("norm/gain")));
  layer.prepare();
  Saved saved(Device::cpu());
  Tensor<T> y(x.shape());
  copy<T>(layer.forward({.vectors = x}, {}, {}, saved), y);
  return y;
}

}  // namespace

TEMPLATE_TEST_CASE("RmsNorm divides by the root of the mean square", "[layers]", float, double) {
  using T = TestType;
  Tensor<T> x(Shape{1, 2, 2}), gain(Shape{2}), expected(x.shape());
  // The mean square of (3, 4) is 12.5.
  x(0, 0, 0) = 3;
  x(0, 0, 1) = 4;
  x(0, 1, 0) = -3;
  x(0, 1, 1) = 4;
  gain(0) = 2;
  gain(1) = T{0.5};
  const double root = std::sqrt(13.0);
  expected(0, 0, 0) = static_cast<T>(6 / root);
  expected(0, 0, 1) = static_cast<T>(2 / root);
  expected(0, 1, 0) = static_cast<T>(-6 / root);
  expected(0, 1, 1) = static_cast<T>(2 / root);
  CHECK(relative_error(normalised<T>(x, gain, 0.5), expected) <= tolerance::rounding<T>(2));
  const Tensor<T> zeros(x.shape());
  CHECK(equal(normalised<T>(zeros, gain, 1e-5), zeros));
}

TEST_CASE("what RmsNorm returns has a mean square of 1, of every size", "[layers]") {
  for (const Index size : {1, 7, 8, 19, 64}) {
    const Tensor<double> x = normal_tensor<double>({3, 2, size}, 1, 50);
    Tensor<double> ones(Shape{size});
    std::fill(ones.begin(), ones.end(), 1.0);
    const Tensor<double> y = normalised<double>(x, ones, 1e-30);
    // An epsilon of 1e-30 is less than the rounding of any square here.
    CHECK(std::abs(frobenius_norm(y) / std::sqrt(static_cast<double>(y.size())) - 1) <=
          tolerance::rounding<double>(size));
  }
}

TEST_CASE("RmsNorm starts with a gain of 1, and has an epsilon of its own", "[layers]") {
  ParameterSet<float> parameters;
  RmsNormLayer<float> layer(parameters, "norm", {}, 5);
  parameters.allocate(Device::cpu());
  layer.initialize(1);
  for (const float gain : parameters.values()) CHECK(gain == 1);
  CHECK(RmsNorm{}.epsilon == 1e-5);
}

TEST_CASE("RmsNorm has the same bits for every number of threads", "[layers]") {
  const Tensor<float> x = normal_tensor<float>({5, 7, 33}, 1), gain = normal_tensor<float>({33}, 2),
                      d_y = normal_tensor<float>({5, 7, 33}, 3);
  const auto run = [&](int threads) {
    const Threads scope(threads);
    ParameterSet<float> parameters;
    RmsNormLayer<float> layer(parameters, "norm", {}, 33);
    parameters.allocate(Device::cpu());
    copy<float>(gain, parameters.value(0));
    layer.prepare();
    Saved saved(Device::cpu()), scratch(Device::cpu());
    layer.forward({.vectors = x}, {}, {}, saved);
    Tensor<float> d_output = d_y.copy(), d_input(x.shape());
    layer.backward({.vectors = x}, {.d_output = d_output, .d_input = d_input}, saved, scratch);
    return std::pair(parameters.gradients().copy(), std::move(d_input));
  };
  const auto alone = run(1), shared = run(4);
  CHECK(same_bits(alone.first, shared.first));
  CHECK(same_bits(alone.second, shared.second));
}

TEST_CASE("RmsNorm refuses what it cannot normalise", "[layers][errors]") {
  ParameterSet<float> parameters;
  check_says<ValueError>([&] { RmsNormLayer<float>(parameters, "a", {.epsilon = 0}, 3); },
                         {"rms_norm", "epsilon", "above 0"});
  // 1e-60 is 0 in float.
  check_says<ValueError>([&] { RmsNormLayer<float>(parameters, "b", {.epsilon = 1e-60}, 3); },
                         {"rms_norm", "epsilon"});
  check_says<ValueError>([&] { RmsNormLayer<float>(parameters, "c", {}, 0); }, {"0 inputs", "at least 1"});
  RmsNormLayer<float> layer(parameters, "d", {}, 3);
  parameters.allocate(Device::cpu());
  layer.prepare();
  Saved saved(Device::cpu());
  const Tensor<std::int32_t> symbols(Shape{2, 1});
  check_says<ValueError>([&] { layer.forward({.symbols = symbols}, {}, {}, saved); },
                         {"rms_norm", "symbols", "put an embedding"});
}

}  // namespace orthornn::testing
