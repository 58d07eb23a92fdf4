#include "orthornn/nn/loss.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

Tensor<std::int32_t> classes_of(const std::vector<std::int32_t>& values) {
  Tensor<std::int32_t> classes(Shape{static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), classes.begin());
  return classes;
}

}  // namespace

TEST_CASE("softmax cross-entropy of a case computed by hand", "[nn]") {
  // exp: 1, 3, 4 -> probabilities 1/8, 3/8, 1/2; the second row is not counted.
  Tensor<double> outputs(Shape{2, 3});
  const double logs[] = {0, std::log(3), std::log(4), 5, -7, 1};
  std::copy(logs, logs + 6, outputs.begin());
  const double loss = softmax_cross_entropy<double>(outputs, classes_of({1, -1})).mean();
  CHECK(loss == Approx(std::log(8.0 / 3)).epsilon(1e-14));
  CHECK(outputs(0, 0) == Approx(1.0 / 8).epsilon(1e-14));
  CHECK(outputs(0, 1) == Approx(3.0 / 8 - 1).epsilon(1e-14));
  CHECK(outputs(0, 2) == Approx(1.0 / 2).epsilon(1e-14));
  for (Index c = 0; c < 3; ++c) CHECK(outputs(1, c) == 0);
}

TEST_CASE("softmax cross-entropy leaves outputs alone when no gradient is asked for", "[nn]") {
  Tensor<float> outputs = normal_tensor<float>({5, 4}, 1);
  const Tensor<float> before = outputs.copy();
  softmax_cross_entropy<float>(outputs, classes_of({0, 1, 2, 3, -1}), {}, false);
  CHECK(equal(outputs, before));
}

TEST_CASE("softmax cross-entropy survives outputs far apart", "[nn]") {
  Tensor<float> outputs(Shape{1, 2});
  outputs(0, 0) = 1e30F;
  outputs(0, 1) = -1e30F;
  CHECK(softmax_cross_entropy<float>(outputs, classes_of({0})).mean() == 0);
  CHECK(std::isfinite(outputs(0, 1)));
}

TEST_CASE("gradients of both losses are those of finite differences", "[nn][gradient][long]") {
  // More rows than a block of the summation has.
  const Index rows = 1030;
  Tensor<double> outputs = normal_tensor<double>({rows, 3}, 2);
  SECTION("softmax cross-entropy") {
    Tensor<std::int32_t> classes(Shape{rows});
    for (Index i = 0; i < rows; ++i) classes(i) = static_cast<std::int32_t>(i % 4) - 1;
    const auto loss = [&] {
      Tensor<double> work = outputs.copy();
      return softmax_cross_entropy<double>(work, classes, {}, false).sum;
    };
    Tensor<double> gradient = outputs.copy();
    CHECK(softmax_cross_entropy<double>(gradient, classes).sum == loss());
    CHECK(relative_error(gradient, finite_differences(outputs, loss)) <
          1e-5);  // each entry is about 1 / rows of the loss
  }
  SECTION("softmax cross-entropy with label smoothing") {
    Tensor<std::int32_t> classes(Shape{rows});
    for (Index i = 0; i < rows; ++i) classes(i) = static_cast<std::int32_t>(i % 4) - 1;
    const double smoothing = 0.15;
    // -log p of every class is what the loss is where that class is the target.
    const auto loss = [&] {
      Tensor<double> work = outputs.copy();
      double sum = (1 - smoothing) * softmax_cross_entropy<double>(work, classes, {}, false).sum;
      for (std::int32_t c = 0; c < 3; ++c) {
        Tensor<std::int32_t> all = classes.copy();
        for (std::int32_t& target : all) target = target < 0 ? -1 : c;
        sum += smoothing / 3 * softmax_cross_entropy<double>(work, all, {}, false).sum;
      }
      return sum;
    };
    Tensor<double> gradient = outputs.copy();
    Tensor<double> plain = outputs.copy();
    // The value is that without smoothing.
    CHECK(softmax_cross_entropy<double>(gradient, classes, {}, true, smoothing).sum ==
          softmax_cross_entropy<double>(plain, classes).sum);
    CHECK(relative_error(gradient, finite_differences(outputs, loss)) < 1e-5);
  }
  SECTION("absolute and squared error") {
    // Differences of about 1 are far from the kink.
    const Tensor<float> values = normal_tensor<float>({rows, 3}, 3);
    const auto loss = [&] {
      Tensor<double> work = outputs.copy();
      return absolute_and_squared_error<double>(work, values, {}, false).sum;
    };
    double sum = 0;
    for (Index i = 0; i < outputs.size(); ++i) {
      const double error = std::abs(outputs.data()[i] - static_cast<double>(values.data()[i]));
      sum += error + error * error;
    }
    Tensor<double> gradient = outputs.copy();
    CHECK(absolute_and_squared_error<double>(gradient, values).sum == loss());
    CHECK(loss() == Approx(sum).epsilon(1e-12));
    CHECK(relative_error(gradient, finite_differences(outputs, loss)) < 1e-5);
  }
  SECTION("mean squared error") {
    const Tensor<float> values = normal_tensor<float>({rows, 3}, 3);
    const auto loss = [&] {
      Tensor<double> work = outputs.copy();
      return mean_squared_error<double>(work, values, {}, false).sum;
    };
    Tensor<double> gradient = outputs.copy();
    CHECK(mean_squared_error<double>(gradient, values).sum == loss());
    CHECK(relative_error(gradient, finite_differences(outputs, loss)) < 1e-5);
  }
}

TEST_CASE("losses of targets with weights are weighted means, and so are their gradients", "[nn][gradient]") {
  // Two sequences in three steps, of which the second one has two.
  const Tensor<std::int32_t> lengths = classes_of({3, 2});
  Tensor<double> outputs = normal_tensor<double>({3, 2, 3}, 7);
  Tensor<double> gradient = outputs.copy();
  const auto differences = [&](const auto& loss_of) {
    return finite_differences(outputs, [&] {
      Tensor<double> work = outputs.copy();
      return loss_of(work.view());
    });
  };
  SECTION("softmax cross-entropy, with label smoothing") {
    Tensor<std::int32_t> classes(Shape{3, 2});
    Tensor<float> weights(Shape{3, 2});
    for (Index i = 0; i < 6; ++i) {
      classes.data()[i] = static_cast<std::int32_t>(i % 3);
      weights.data()[i] = static_cast<float>(0.5 + 0.75 * static_cast<double>(i));
    }
    classes(1, 1) = -1;
    classes(2, 0) = 7, weights(2, 0) = 0;  // it is not read
    const BatchLoss found = softmax_cross_entropy<double>(gradient, classes, lengths, true, 0.2, weights);
    // The sum of the targets one by one. (0, 0), (0, 1) and (1, 0) are left.
    double sum = 0;
    for (const auto& [t, b] : {std::pair{0, 0}, {0, 1}, {1, 0}}) {
      Tensor<double> row(Shape{1, 3});
      std::ranges::copy(outputs.view()[t][b], row.begin());
      sum += weights(t, b) * softmax_cross_entropy<double>(row, classes_of({classes(t, b)}), {}, false).sum;
    }
    CHECK(found.sum == Approx(sum).epsilon(1e-14));
    CHECK(found.count == Approx(0.5 + 1.25 + 2).epsilon(1e-14));
    // The gradient is that of the smoothed loss, a sum of such without smoothing.
    const auto smoothed = [&](TensorView<double> work) {
      double value = 0.8 * softmax_cross_entropy<double>(work, classes, lengths, false, 0, weights).sum;
      for (std::int32_t c = 0; c < 3; ++c) {
        Tensor<std::int32_t> all = classes.copy();
        for (std::int32_t& target : all) target = target < 0 ? -1 : c;
        value += 0.2 / 3 * softmax_cross_entropy<double>(work, all, lengths, false, 0, weights).sum;
      }
      return value;
    };
    CHECK(relative_error(gradient, differences(smoothed)) < 1e-8);
  }
  SECTION("squared error") {
    Tensor<float> values = normal_tensor<float>({3, 2, 3}, 8), weights(Shape{3, 2, 3});
    for (Index i = 0; i < 18; ++i) weights.data()[i] = static_cast<float>(0.25 * static_cast<double>(i % 5));
    double sum = 0, count = 0;
    for (Index i = 0; i < 15; ++i) {  // the last three are padding
      const double error = outputs.data()[i] - static_cast<double>(values.data()[i]);
      sum += weights.data()[i] * error * error;
      count += weights.data()[i];
    }
    for (Index i = 0; i < 18; i += 5) values.data()[i] = std::numeric_limits<float>::quiet_NaN();
    const auto loss = [&](TensorView<double> work) {
      return mean_squared_error<double>(work, values, lengths, false, weights).sum;
    };
    const BatchLoss found = mean_squared_error<double>(gradient, values, lengths, true, weights);
    CHECK(found.sum == Approx(sum).epsilon(1e-14));
    CHECK(found.count == count);
    CHECK(relative_error(gradient, differences(loss)) < 1e-8);
  }
}

TEST_CASE("padding beyond the lengths counts in no loss and has no gradient", "[nn]") {
  // Two sequences of two and of one step, in three steps; one of the three targets that remain does not
  // count.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<std::int32_t> lengths = classes_of({2, 1});
  Tensor<double> outputs(Shape{3, 2, 2});
  std::fill(outputs.begin(), outputs.end(), static_cast<double>(nan));
  outputs(0, 0, 0) = 1, outputs(0, 0, 1) = 1 + std::log(3);
  outputs(0, 1, 0) = 2, outputs(0, 1, 1) = 2;
  outputs(1, 0, 0) = 0, outputs(1, 0, 1) = 5;
  Tensor<double> work = outputs.copy();

  Tensor<std::int32_t> classes(Shape{3, 2});
  std::fill(classes.begin(), classes.end(), 7);  // not even looked at
  classes(0, 0) = 1, classes(0, 1) = 0, classes(1, 0) = -1;
  const BatchLoss entropy = softmax_cross_entropy<double>(work, classes, lengths);
  CHECK(entropy.count == 2);
  CHECK(entropy.mean() == Approx((std::log(4.0 / 3) + std::log(2.0)) / 2).epsilon(1e-14));
  CHECK(work(0, 0, 1) == Approx(0.75 - 1).epsilon(1e-14));
  CHECK(work(0, 1, 1) == Approx(0.5).epsilon(1e-14));
  const auto check_padding = [&] {
    for (const double x : {work(1, 1, 0), work(1, 1, 1), work(2, 0, 0), work(2, 1, 1)}) CHECK(x == 0);
  };
  check_padding();

  Tensor<float> values(Shape{3, 2, 2});
  std::fill(values.begin(), values.end(), nan);
  values(0, 0, 0) = 0, values(0, 0, 1) = 1;
  values(0, 1, 0) = 2, values(0, 1, 1) = 4;
  values(1, 0, 0) = 3, values(1, 0, 1) = 5;
  work = outputs.copy();
  const BatchLoss square = mean_squared_error<double>(work, values, lengths);
  CHECK(square.count == 6);
  CHECK(square.mean() == Approx((1 + std::log(3) * std::log(3) + 4 + 9) / 6).epsilon(1e-7));
  CHECK(work(0, 1, 1) == Approx(2.0 * (2 - 4)).epsilon(1e-14));
  check_padding();

  CHECK_THROWS_WITH(mean_squared_error<double>(work, values, classes_of({0, 0})).mean(),
                    contains("no target counts"));
  CHECK_THROWS_WITH(softmax_cross_entropy<double>(work, classes, classes_of({0, 0})).mean(),
                    contains("no target counts"));
  CHECK_THROWS_AS(mean_squared_error<double>(work, values, classes_of({1, 1, 1})), ShapeError);
}

TEST_CASE("losses do not depend on the number of threads", "[nn]") {
  const Tensor<float> outputs = normal_tensor<float>({5000, 9}, 4);
  Tensor<std::int32_t> classes(Shape{5000});
  for (Index i = 0; i < 5000; ++i) classes(i) = static_cast<std::int32_t>(i % 9);
  const int before = thread_count();
  double losses[3];
  for (int threads = 1; threads <= 3; ++threads) {
    set_thread_count(threads);
    Tensor<float> work = outputs.copy();
    losses[threads - 1] = softmax_cross_entropy<float>(work, classes).mean();
  }
  set_thread_count(before);
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0] == losses[2]);
}

TEST_CASE("losses refuse targets that do not fit", "[nn]") {
  Tensor<float> outputs(Shape{2, 3});
  CHECK_THROWS_AS(softmax_cross_entropy<float>(outputs, classes_of({0})), ShapeError);
  CHECK_THROWS_WITH(softmax_cross_entropy<float>(outputs, classes_of({0, 3})), contains("class 3"));
  CHECK_THROWS_WITH(softmax_cross_entropy<float>(outputs, classes_of({-1, -1})).mean(),
                    contains("no target counts"));
  CHECK_THROWS_WITH(
      softmax_cross_entropy<float>(outputs, classes_of({0, 1}), {}, true, 0, Tensor<float>(Shape{2})).mean(),
      contains("every weight 0"));
  CHECK_THROWS_WITH(softmax_cross_entropy<float>(outputs, classes_of({0, 1}), {}, true, 1.0),
                    contains("smoothing"));
  CHECK_THROWS_AS(mean_squared_error<float>(outputs, Tensor<float>(Shape{3, 2})), ShapeError);
  const Tensor<float> weights(Shape{3});
  CHECK_THROWS_AS(softmax_cross_entropy<float>(outputs, classes_of({0, 1}), {}, true, 0, weights),
                  ShapeError);
  CHECK_THROWS_AS(mean_squared_error<float>(outputs, Tensor<float>(Shape{2, 3}), {}, true, weights),
                  ShapeError);
}
