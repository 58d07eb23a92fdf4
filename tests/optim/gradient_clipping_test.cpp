#include "orthornn/optim/gradient_clipping.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"
#include "support/same_bits.hpp"

using namespace orthornn;
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

TEMPLATE_TEST_CASE("Gradients above the norm are scaled onto it", "[clipping]", float, double) {
  Tensor<TestType> gradients(Shape{2, 2});
  gradients(0, 0) = 3;
  gradients(1, 1) = -4;
  CHECK(clip_by_global_norm(gradients.view(), 1) == 5);
  // 1 / 5 and the products with it round once each: within one part in 2^23 (float) of 0.6 and -0.8.
  const double rounding = std::numeric_limits<TestType>::epsilon();
  CHECK(std::abs(gradients(0, 0) - 0.6) <= rounding);
  CHECK(std::abs(gradients(1, 1) + 0.8) <= rounding);
  CHECK(gradients(0, 1) == 0);
}

TEMPLATE_TEST_CASE("The norm is compared with the limit, not its square", "[clipping]", float, double) {
  // Norm 0.5 has the square 0.25, norm 2 the square 4: the limits lie between the two.
  for (const double norm : {0.5, 2.0}) {
    for (const double limit : {0.3, 0.7, 1.5, 3.0}) {
      Tensor<TestType> gradients(Shape{2});
      gradients(0) = static_cast<TestType>(norm);
      CHECK(clip_by_global_norm(gradients.view(), limit) == norm);
      CHECK(std::abs(static_cast<double>(gradients(0)) - std::min(norm, limit)) <= 1e-6);
    }
  }
}

TEMPLATE_TEST_CASE("Gradients within the norm, or only measured, keep their bits", "[clipping]", float,
                   double) {
  Tensor<TestType> gradients = random_gradients<TestType>(1000);
  const Tensor<TestType> before = gradients.copy();
  const double norm = clip_by_global_norm(gradients.view(), 0);
  CHECK((norm > 25 && norm < 40));  // sqrt(1000) = 31.6 for standard normal entries, standard deviation 0.7
  CHECK(clip_by_global_norm(gradients.view(), norm) == norm);
  CHECK(clip_by_global_norm(gradients.view(), std::numeric_limits<double>::infinity()) == norm);
  CHECK(same_bits(gradients, before));
}

TEMPLATE_TEST_CASE("The norm is the Euclidean norm over all blocks", "[clipping]", float, double) {
  // 1,048,575: one short of a multiple of the block size; 2,000,003: blocks longer than the smallest.
  for (const Index count : {Index{1}, Index{4095}, Index{4097}, Index{1'048'575}, Index{2'000'003}}) {
    Tensor<TestType> gradients = random_gradients<TestType>(count);
    long double sum = 0;
    for (const TestType gradient : gradients) sum += static_cast<long double>(gradient) * gradient;
    const double expected = static_cast<double>(std::sqrt(sum));
    // A sum of n positive terms in double is off by n eps at the very worst, by sqrt(n) eps in practice.
    const double tolerance = expected * 10 * std::sqrt(static_cast<double>(count)) * 2.2e-16;
    CHECK(std::abs(clip_by_global_norm(gradients.view(), expected / 2) - expected) <= tolerance);
    // Each entry carries its own rounding, and all share that of the factor: one eps in the norm of all.
    const double half = clip_by_global_norm(gradients.view(), 0);
    CHECK(std::abs(half - expected / 2) <= expected * std::numeric_limits<TestType>::epsilon() + tolerance);
  }
}

TEMPLATE_TEST_CASE("The number of threads changes no bit of clipped gradients", "[clipping]", float, double) {
  Tensor<TestType> one = random_gradients<TestType>(1'500'001);
  Tensor<TestType> many = one.copy();
  double norm_of_one = 0;
  {
    const Threads threads(1);
    norm_of_one = clip_by_global_norm(one.view(), 0.5);
  }
  for (const int count : {2, 3}) {
    const Threads threads(count);
    Tensor<TestType> clipped = random_gradients<TestType>(1'500'001);
    CHECK(clip_by_global_norm(clipped.view(), 0.5) == norm_of_one);
    CHECK(same_bits(one, clipped));
  }
}

TEMPLATE_TEST_CASE("A norm that is not finite is reported, and nothing is scaled", "[clipping]", float,
                   double) {
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor<TestType> gradients = random_gradients<TestType>(10);
  gradients(3) = std::numeric_limits<TestType>::infinity();
  Tensor<TestType> before = gradients.copy();
  CHECK(clip_by_global_norm(gradients.view(), 1) == infinity);
  CHECK(same_bits(gradients, before));
  gradients(4) = std::numeric_limits<TestType>::quiet_NaN();
  before = gradients.copy();
  CHECK(std::isnan(clip_by_global_norm(gradients.view(), 1)));
  CHECK(same_bits(gradients, before));
}

TEST_CASE("Float gradients whose squares overflow float still have a norm", "[clipping]") {
  Tensor<float> gradients(Shape{4});
  for (float& gradient : gradients) gradient = 1e30F;
  const double norm = clip_by_global_norm(gradients.view(), 1);
  CHECK(std::abs(norm - 2e30) <= 2e30 * 1e-7);  // 1e30 is rounded to float
  CHECK(std::abs(gradients(0) - 0.5F) <= 1e-7F);
}

TEST_CASE("Clipping nothing, or to a negative norm", "[clipping]") {
  Tensor<float> none(Shape{0});
  CHECK(clip_by_global_norm(none.view(), 1) == 0);
  Tensor<float> some(Shape{3});
  CHECK(clip_by_global_norm(some.view(), 1) == 0);
  CHECK_THROWS_AS(clip_by_global_norm(some.view(), -1), ValueError);
  CHECK_THROWS_AS(clip_by_global_norm(some.view(), std::numeric_limits<double>::quiet_NaN()), ValueError);
}
