#include <algorithm>
#include <initializer_list>
#include <limits>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/loss.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Some of them do not count; the first does.
Tensor<std::int32_t> random_classes(const Shape& shape, Index count) {
  Tensor<std::int32_t> classes(shape);
  RandomStream random(5, RandomPurpose::validation);
  for (std::int32_t& c : classes) {
    c = static_cast<std::int32_t>(random.integer(static_cast<std::uint32_t>(count + 1))) - 1;
  }
  *classes.begin() = 0;
  return classes;
}

/// Lengths from 1 to T and 0 in turn.
Tensor<std::int32_t> lengths_up_to(Index steps, Index batch) {
  Tensor<std::int32_t> lengths(Shape{batch});
  for (Index b = 0; b < batch; ++b) lengths(b) = static_cast<std::int32_t>((b + 1) % (steps + 1));
  return lengths;
}

}  // namespace

TEMPLATE_TEST_CASE("losses on a GPU are those of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  // Threads that take a row each, warps and blocks that do, more rows than blocks take at once, and rows that
  // a block reads number by number or in packs.
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 2}, Shape{33, 128, 9}, Shape{7, 5, 65},
                             Shape{3, 1000}, Shape{2, 2, 2501}, Shape{3, 8200}}) {
    CAPTURE(to_string(shape));
    const Tensor<T> outputs = normal_tensor<T>(shape, 1, 3);
    Tensor<double> expected = cast<double>(outputs);
    Tensor<T> found = outputs.copy(*device);
    // The CPU sums a row's exponentials in T, so the oracle is double.
    const auto compare = [&](const BatchLoss& loss, const BatchLoss& expected_loss) {
      CHECK(loss.count == expected_loss.count);
      CHECK(std::abs(loss.mean() - expected_loss.mean()) <=
            tolerance::rounding<T>(4) * (1 + std::abs(expected_loss.mean())));
      // Where there is one class, the gradient is the difference of two ones.
      const double size = std::max(frobenius_norm(expected), std::numeric_limits<double>::min());
      CHECK(size * relative_error(found.copy(Device::cpu()), expected) <=
            tolerance::rounding<T>(8) * std::max(size, 1.0));
    };
    Shape rows;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows.append(shape[i]);
    const Tensor<std::int32_t> classes = random_classes(rows, shape[-1]);
    const Tensor<std::int32_t> classes_there = classes.copy(*device);

    CHECK(softmax_cross_entropy<T>(found, classes_there, {}, false).mean() ==
          Approx(softmax_cross_entropy<double>(expected, classes, {}, false).mean())
              .epsilon(tolerance::rounding<T>(4)));
    CHECK(same_bits(found.copy(Device::cpu()), outputs));  // without a gradient they stay
    const BatchLoss expected_entropy = softmax_cross_entropy<double>(expected, classes);
    const BatchLoss entropy = softmax_cross_entropy<T>(found, classes_there);
    compare(entropy, expected_entropy);
    const Tensor<T> first = found.copy(Device::cpu());
    found = outputs.copy(*device);
    CHECK(softmax_cross_entropy<T>(found, classes_there).mean() == entropy.mean());
    CHECK(same_bits(found.copy(Device::cpu()), first));

    // Of one class there is nothing to smooth: the gradient is a rounding error.
    if (shape[-1] > 1) {
      expected = cast<double>(outputs);
      found = outputs.copy(*device);
      const BatchLoss smoothed = softmax_cross_entropy<double>(expected, classes, {}, true, 0.2);
      compare(softmax_cross_entropy<T>(found, classes_there, {}, true, 0.2), smoothed);
    }

    const Tensor<float> values = normal_tensor<float>(shape, 2);
    expected = cast<double>(outputs);
    found = outputs.copy(*device);
    compare(mean_squared_error<T>(found, values.copy(*device)), mean_squared_error<double>(expected, values));
    expected = cast<double>(outputs);
    found = outputs.copy(*device);
    compare(absolute_and_squared_error<T>(found, values.copy(*device)),
            absolute_and_squared_error<double>(expected, values));

    if (shape.rank() != 3) continue;
    // Padding beyond the lengths, in both losses; the first sequence has its first step, whose target counts.
    const Tensor<std::int32_t> lengths = lengths_up_to(shape[0], shape[1]);
    const Tensor<std::int32_t> lengths_there = lengths.copy(*device);
    Tensor<std::int32_t> padded_classes = classes.copy();
    Tensor<float> padded_values = values.copy();
    Tensor<T> padded_outputs = outputs.copy();
    for (Index t = 0; t < shape[0]; ++t) {
      for (Index b = 0; b < shape[1]; ++b) {
        if (t < lengths(b)) continue;
        padded_classes(t, b) = 99'999;
        padded_values(t, b, 0) = std::numeric_limits<float>::quiet_NaN();
        padded_outputs(t, b, 0) = std::numeric_limits<T>::quiet_NaN();
      }
    }
    expected = cast<double>(padded_outputs);
    found = padded_outputs.copy(*device);
    compare(softmax_cross_entropy<T>(found, padded_classes.copy(*device), lengths_there),
            softmax_cross_entropy<double>(expected, padded_classes, lengths));
    expected = cast<double>(padded_outputs);
    found = padded_outputs.copy(*device);
    compare(mean_squared_error<T>(found, padded_values.copy(*device), lengths_there),
            mean_squared_error<double>(expected, padded_values, lengths));
  }
}

TEST_CASE("large outputs overflow no exponential on a GPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  Tensor<float> outputs(Shape{1, 3});
  outputs(0, 0) = 1e4F;
  outputs(0, 1) = -1e4F;
  Tensor<std::int32_t> classes(Shape{1});
  classes(0) = 1;
  Tensor<float> there = outputs.copy(*device);
  CHECK(softmax_cross_entropy<float>(there, classes.copy(*device)).mean() == Approx(2e4));
  const Tensor<float> gradient = there.copy(Device::cpu());
  CHECK(gradient(0, 0) == 1);
  CHECK(gradient(0, 1) == -1);
  CHECK(gradient(0, 2) == 0);
}

TEMPLATE_TEST_CASE("outputs that are far below zero have a loss and a gradient on a GPU", "[cuda]", float,
                   double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  // A thread a row, in one round and in several; then a warp; then a block.
  for (const Index classes : {3, 40, 65, 1000, 2501, 8200}) {
    const auto check = [&](const auto& output, Index target) {
      Tensor<T> outputs(Shape{1, classes});
      for (Index c = 0; c < classes; ++c) outputs(0, c) = static_cast<T>(output(c));
      const auto largest = static_cast<double>(*std::max_element(outputs.begin(), outputs.end()));
      double total = 0;
      for (const T y : outputs) total += std::exp(static_cast<double>(y) - largest);
      Tensor<std::int32_t> targets(Shape{1});
      targets(0) = static_cast<std::int32_t>(target);
      Tensor<T> found = outputs.copy(*device);
      const BatchLoss loss = softmax_cross_entropy<T>(found, targets.copy(*device));
      const double expected = std::log(total) - (static_cast<double>(outputs(0, target)) - largest);
      CHECK(std::abs(loss.sum - expected) <= tolerance::rounding<T>(8) * (1 + expected));
      Tensor<double> gradient(outputs.shape());
      for (Index c = 0; c < classes; ++c)
        gradient(0, c) = std::exp(static_cast<double>(outputs(0, c)) - largest) / total - (c == target);
      // Where there is none but the target, the gradient is 0.
      const double size = std::max(frobenius_norm(gradient), std::numeric_limits<double>::min());
      CHECK(size * relative_error(found.copy(Device::cpu()), gradient) <= tolerance::rounding<T>(8));
    };
    CAPTURE(classes);
    // All the same, whose exp is 0.
    check([](Index) { return -1000.0; }, 1);
    // Rising numbers: every round has a new largest one, near the one before or far from it.
    check([](Index c) { return static_cast<double>(c) / 64 - 2000; }, classes - 1);
    check([](Index c) { return 10 * static_cast<double>(c) - 90'000; }, classes - 1);
    // None but the target.
    check([&](Index c) { return c == classes - 2 ? -1000 : -std::numeric_limits<double>::infinity(); },
          classes - 2);
  }
}

TEST_CASE("what a GPU finds wrong with targets is thrown when somebody waits", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  Tensor<float> outputs(Shape{4, 3}, *device);
  Tensor<std::int32_t> classes(Shape{4});
  classes(2) = 3;
  CHECK_THROWS_WITH(softmax_cross_entropy<float>(outputs, classes.copy(*device)),
                    contains("class at position 2"));
  Tensor<double> value(Shape{2}, *device);
  softmax_cross_entropy<float>(outputs, classes.copy(*device), {}, value, true);
  CHECK_THROWS_AS(synchronize(*device), ValueError);
  CHECK(std::isnan(value.copy(Device::cpu())(0)));
  for (std::int32_t& c : classes) c = -1;
  const BatchLoss nothing = softmax_cross_entropy<float>(outputs, classes.copy(*device));
  CHECK(nothing.sum == 0);
  CHECK(nothing.count == 0);
}

TEMPLATE_TEST_CASE("losses of targets with weights on a GPU are those of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  // A row is of a thread, a warp or a block.
  for (const Shape& shape : {Shape{33, 128, 9}, Shape{7, 5, 65}, Shape{2, 3, 2501}}) {
    CAPTURE(to_string(shape));
    const Tensor<T> outputs = normal_tensor<T>(shape, 1, 3);
    const Tensor<float> values = normal_tensor<float>(shape, 2);
    const Shape rows = {shape[0], shape[1]};
    const Tensor<std::int32_t> lengths = lengths_up_to(shape[0], shape[1]);
    // Weights are multiples of a power of two, so that their sums are exact in every order. Targets of weight
    // 0 are not read: no class has their number, and no value is one.
    const auto weights_of = [](const Shape& targets) {
      Tensor<float> weights(targets);
      for (Index i = 0; i < weights.size(); ++i) weights.data()[i] = 0.25F * static_cast<float>((i + 1) % 5);
      return weights;
    };
    Tensor<std::int32_t> classes = random_classes(rows, shape[-1]);
    const Tensor<float> of_classes = weights_of(rows), of_values = weights_of(shape);
    Tensor<float> known = values.copy();
    for (Index i = 0; i < classes.size(); ++i)
      if (of_classes.data()[i] == 0) classes.data()[i] = 99'999;
    for (Index i = 0; i < known.size(); ++i)
      if (of_values.data()[i] == 0) known.data()[i] = std::numeric_limits<float>::quiet_NaN();
    const auto compare = [](const BatchLoss& loss, const BatchLoss& expected_loss, const Tensor<T>& gradient,
                            const Tensor<double>& expected) {
      CHECK(loss.count == expected_loss.count);
      CHECK(loss.sum == Approx(expected_loss.sum).epsilon(tolerance::rounding<T>(4)));
      CHECK(relative_error(gradient.copy(Device::cpu()), expected) <= tolerance::rounding<T>(8));
    };
    Tensor<double> expected = cast<double>(outputs);
    Tensor<T> found = outputs.copy(*device);
    BatchLoss here = softmax_cross_entropy<double>(expected, classes, lengths, true, 0.2, of_classes);
    BatchLoss there = softmax_cross_entropy<T>(found, classes.copy(*device), lengths.copy(*device), true, 0.2,
                                               of_classes.copy(*device));
    compare(there, here, found, expected);
    expected = cast<double>(outputs);
    found = outputs.copy(*device);
    here = mean_squared_error<double>(expected, known, lengths, true, of_values);
    there = mean_squared_error<T>(found, known.copy(*device), lengths.copy(*device), true,
                                  of_values.copy(*device));
    compare(there, here, found, expected);
  }
}

TEST_CASE("losses of nothing on a GPU are those of the CPU", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Device where : {Device::cpu(), *device}) {
    CAPTURE(to_string(where));
    Tensor<float> outputs(Shape{0, 3}, where);
    CHECK_THROWS_WITH(softmax_cross_entropy<float>(outputs, Tensor<std::int32_t>(Shape{0}, where)).mean(),
                      contains("no target counts"));
    CHECK_THROWS_WITH(mean_squared_error<float>(outputs, Tensor<float>(Shape{0, 3}, where)).mean(),
                      contains("no target counts"));
  }
}
