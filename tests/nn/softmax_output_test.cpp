#include "nn/softmax_output_case.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/linear_layer.hpp"
#include "orthornn/nn/loss.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

// All rows at once; some; one, for a row has more outputs than are allowed.
constexpr Index most_outputs[] = {1000, 4 * SoftmaxOutputCase<double>::classes, 3};

}  // namespace

TEST_CASE("a softmax output in parts is a linear layer and its cross-entropy", "[nn][softmax]") {
  const double smoothing = GENERATE(0.0, 0.1);
  for (const Index most : most_outputs) {
    CAPTURE(most, smoothing);
    SoftmaxOutputCase<double> c(most);
    c.run(smoothing);
    CHECK(c.scratch.size() == 0);

    ParameterSet<double> parameters;
    LinearLayer<double> linear(parameters, "output", SoftmaxOutputCase<double>::inputs,
                               SoftmaxOutputCase<double>::classes);
    parameters.allocate(Device::cpu());
    copy<double>(c.parameters.values(), parameters.values());
    linear.prepare();
    Saved saved(Device::cpu()), scratch(Device::cpu());
    linear.forward({.vectors = c.h}, {}, {}, saved);
    const TensorView<double> y = saved.top<double>();
    const BatchLoss loss = softmax_cross_entropy<double>(y, c.targets, {}, true, smoothing);
    Tensor<double> d_h(c.h.shape());
    linear.backward({.vectors = c.h}, {.d_output = y, .d_input = d_h}, saved, scratch);

    const double bound =
        tolerance::rounding<double>(SoftmaxOutputCase<double>::length * SoftmaxOutputCase<double>::batch);
    CHECK(c.value(0) == Approx(loss.sum).epsilon(bound));
    CHECK(c.value(1) == loss.count);
    CHECK(relative_error(c.parameters.gradients(), parameters.gradients()) <= bound);
    CHECK(relative_error(c.d_h, d_h) <= bound);
    CHECK(c.loss() == Approx(loss.sum).epsilon(bound));
  }
}

TEST_CASE("gradients of a softmax output are those of finite differences", "[nn][softmax][gradient]") {
  SoftmaxOutputCase<double> c(2 * SoftmaxOutputCase<double>::classes);
  c.run();
  const Tensor<double> gradients = c.parameters.gradients().copy(), d_h = c.d_h.copy();
  CHECK(relative_error(gradients, finite_differences(c.parameters.values(), [&] { return c.loss(); })) <=
        tolerance::finite_difference);
  CHECK(relative_error(d_h, finite_differences(c.h, [&] { return c.loss(); })) <=
        tolerance::finite_difference);
}

TEST_CASE("a tied softmax output reads another parameter and writes its gradient", "[nn][softmax]") {
  SoftmaxOutputCase<double> c(1000);
  c.run();
  ParameterSet<double> parameters;
  const Index place = parameters.add("embedding/vectors",
                                     {SoftmaxOutputCase<double>::classes, SoftmaxOutputCase<double>::inputs});
  SoftmaxOutput<double> tied(parameters, "output", SoftmaxOutputCase<double>::inputs,
                             SoftmaxOutputCase<double>::classes, place);
  CHECK(parameters.list().size() == 2);
  parameters.allocate(Device::cpu());
  copy<double>(c.parameters.values(), parameters.values());
  Tensor<double> d_h(c.h.shape());
  tied.loss_and_gradient(c.h, c.targets, 0, d_h, c.value, c.scratch);
  CHECK(equal(parameters.gradients(), c.parameters.gradients()));
  CHECK(equal(d_h, c.d_h));
  CHECK_THROWS_WITH(
      SoftmaxOutput<double>::add_parameters(parameters, "other", SoftmaxOutputCase<double>::inputs, 9, place),
      contains("[9, 4]") && contains("[11, 4]"));
}

TEST_CASE("a softmax output refuses what does not fit", "[nn][softmax]") {
  SoftmaxOutputCase<double> c(100);
  c.targets(1, 1) = SoftmaxOutputCase<double>::classes;
  CHECK_THROWS_WITH(c.run(), contains("class 11"));
  CHECK(c.scratch.size() == 0);
  c.targets(1, 1) = 0;
  c.h.resize({SoftmaxOutputCase<double>::length, SoftmaxOutputCase<double>::batch, 3});
  CHECK_THROWS_AS(c.run(), ShapeError);
  c.targets.resize({0, 3});
  c.h.resize({0, 3, 4});
  c.d_h.resize({0, 3, 4});
  CHECK_THROWS_AS(c.run(), ShapeError);
  ParameterSet<float> parameters;
  CHECK_THROWS_AS(SoftmaxOutput<float>(parameters, "output", 4, 0), ValueError);
}
