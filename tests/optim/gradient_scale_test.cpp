#include "orthornn/optim/gradient_scale.hpp"

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "support/catch.hpp"
#include "support/same_bits.hpp"

using namespace orthornn;
using orthornn::testing::Approx;
using orthornn::testing::same_bits;
using orthornn::testing::Threads;

namespace {

template <class T>
Tensor<T> random_gradients(Index count) {
  RandomStream random(7, RandomPurpose::training);
  Tensor<T> gradients(Shape{count});
  for (T& gradient : gradients) gradient = static_cast<T>(random.normal());
  return gradients;
}

}  // namespace

TEMPLATE_TEST_CASE("the gradient of a sum becomes that of the mean, of at most the largest norm", "[scale]",
                   float, double) {
  Tensor<TestType> gradients(Shape{2, 2});
  gradients(0, 0) = 3;
  gradients(1, 1) = -4;
  // All numbers here are exact in double.
  for (const auto& [count, max_norm, norm, factor] :
       {std::array{1.0, 0.0, 5.0, 1.0}, std::array{1.0, 1.25, 5.0, 0.25}, std::array{4.0, 0.0, 1.25, 0.25},
        std::array{4.0, 5.0, 1.25, 0.25}, std::array{4.0, 0.3125, 1.25, 0.0625},
        // At the limit nothing is shortened; the norm is compared with it, not its square.
        std::array{2.0, 2.5, 2.5, 0.5}, std::array{2.0, 3.0, 2.5, 0.5}, std::array{8.0, 0.5, 0.625, 0.1}}) {
    CAPTURE(count, max_norm);
    const GradientScale scale = gradient_scale<TestType>(gradients, count, max_norm);
    CHECK(scale.norm == norm);
    CHECK(scale.factor == Approx(factor).epsilon(1e-15));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(gradient_scale<TestType>(gradients, 1, infinity).factor == 1);
}

TEMPLATE_TEST_CASE("the norm is the Euclidean norm over all blocks", "[scale]", float, double) {
  // 1,048,575: one short of a multiple of the block size; 2,000,003: blocks longer than the smallest.
  for (const Index count : {Index{1}, Index{4095}, Index{4097}, Index{1'048'575}, Index{2'000'003}}) {
    const Tensor<TestType> gradients = random_gradients<TestType>(count);
    long double sum = 0;
    for (const TestType gradient : gradients) sum += static_cast<long double>(gradient) * gradient;
    const double expected = static_cast<double>(std::sqrt(sum));
    // A sum of n positive terms in double is off by n eps at the very worst, by sqrt(n) eps in practice.
    const double tolerance = expected * 10 * std::sqrt(static_cast<double>(count)) * 2.2e-16;
    CHECK(std::abs(gradient_scale<TestType>(gradients, 1, 0).norm - expected) <= tolerance);
  }
}

TEMPLATE_TEST_CASE("the number of threads changes no bit of the scale", "[scale]", float, double) {
  const Tensor<TestType> gradients = random_gradients<TestType>(1'500'001);
  GradientScale of_one;
  {
    const Threads threads(1);
    of_one = gradient_scale<TestType>(gradients, 7, 0.5);
  }
  for (const int count : {2, 3}) {
    const Threads threads(count);
    const GradientScale scale = gradient_scale<TestType>(gradients, 7, 0.5);
    CHECK(scale.norm == of_one.norm);
    CHECK(scale.factor == of_one.factor);
  }
}

TEMPLATE_TEST_CASE("a norm that is not finite is reported, and nothing is shortened", "[scale]", float,
                   double) {
  Tensor<TestType> gradients = random_gradients<TestType>(10);
  gradients(3) = std::numeric_limits<TestType>::infinity();
  CHECK(gradient_scale<TestType>(gradients, 4, 1).norm == std::numeric_limits<double>::infinity());
  CHECK(gradient_scale<TestType>(gradients, 4, 1).factor == 0.25);
  gradients(4) = std::numeric_limits<TestType>::quiet_NaN();
  CHECK(std::isnan(gradient_scale<TestType>(gradients, 4, 1).norm));
  CHECK(gradient_scale<TestType>(gradients, 4, 1).factor == 0.25);
}

TEST_CASE("float gradients whose squares overflow float still have a norm", "[scale]") {
  Tensor<float> gradients(Shape{4});
  for (float& gradient : gradients) gradient = 1e30F;
  const GradientScale scale = gradient_scale<float>(gradients, 1, 1);
  CHECK(std::abs(scale.norm - 2e30) <= 2e30 * 1e-7);  // 1e30 is rounded to float
  CHECK(scale.factor == Approx(0.5e-30).epsilon(1e-7));
}

TEST_CASE("the scale of nothing, of no target, and of a negative largest norm", "[scale]") {
  const Tensor<float> none(Shape{0}), some(Shape{3});
  CHECK(gradient_scale<float>(none, 1, 1).norm == 0);
  CHECK(gradient_scale<float>(some, 1, 1).norm == 0);
  CHECK(gradient_scale<float>(some, 1, 1).factor == 1);
  CHECK(std::isnan(gradient_scale<float>(some, 0, 1).norm));
  CHECK_THROWS_AS(gradient_scale<float>(some, 1, -1), ValueError);
  Tensor<double> one(Shape{1}), two(Shape{2});
  CHECK_THROWS_AS(gradient_scale<float>(some, one, 1, two), ShapeError);
  CHECK_THROWS_AS(gradient_scale<float>(some, two, 1, one), ShapeError);
  CHECK_THROWS_AS(gradient_scale<float>(some, 1, std::numeric_limits<double>::quiet_NaN()), ValueError);
}

TEST_CASE("an optimizer multiplies gradients by their scale", "[scale]") {
  for (const OptimizerOptions& options :
       {OptimizerOptions(Sgd{.momentum = 0.5}), OptimizerOptions(RmsProp{}), OptimizerOptions(Adam{}),
        OptimizerOptions(AdamW{}), OptimizerOptions(Rgd{}), OptimizerOptions(RgdAdam{})}) {
    ParameterSet<double> scaled, plain;
    for (auto* set : {&scaled, &plain}) {
      set->add("a", Shape{5});
      set->allocate(Device::cpu());
      for (Index i = 0; i < 5; ++i) set->gradients()(i) = static_cast<double>(i - 2);
    }
    for (double& x : plain.gradients()) x *= 0.125;
    Tensor<double> scale(Shape{1});
    scale(0) = 0.125;  // a power of two rounds nothing
    make_optimizer<double>(options, scaled)->step(scaled, {.gradient_scale = scale});
    make_optimizer<double>(options, plain)->step(plain);
    CAPTURE(options.index());
    CHECK(same_bits(scaled.values(), plain.values()));
    CHECK(scaled.values()(0) != 0);
  }
}
