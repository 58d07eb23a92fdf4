#include "nn/softmax_output_case.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

struct Sizes {
  Index classes, most_outputs;
};

/// In one part, in several, and in rows that a block reads in packs, of which the last is not whole.
const auto sizes = {Sizes{11, 1000}, Sizes{11, 30}, Sizes{2501, 100'000}};

}  // namespace

TEMPLATE_TEST_CASE("a softmax output on a GPU is that of the CPU", "[cuda][softmax]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const auto& [classes, most_outputs] : sizes) {
    CAPTURE(classes, most_outputs);
    SoftmaxOutputCase<double> expected(most_outputs, {}, classes);
    SoftmaxOutputCase<T> found(most_outputs, *device, classes);
    expected.run(0.1);
    found.run(0.1);
    const double bound = tolerance::rounding<T>(expected.length * expected.batch);
    const Tensor<double> value = found.value.copy(Device::cpu());
    CHECK(value(0) == Approx(expected.value(0)).epsilon(bound));
    CHECK(value(1) == expected.value(1));
    CHECK(relative_error(found.parameters.gradients().copy(Device::cpu()), expected.parameters.gradients()) <=
          bound);
    CHECK(relative_error(found.d_h.copy(Device::cpu()), expected.d_h) <= bound);
  }
}

TEST_CASE("a softmax output in bf16 rounds the operands of its products alone", "[cuda][softmax]") {
  const auto device = gpu();
  if (!device) return;
  for (const auto& [classes, most_outputs] : sizes) {
    CAPTURE(classes, most_outputs);
    SoftmaxOutputCase<double> expected(most_outputs, {}, classes);
    SoftmaxOutputCase<float> found(most_outputs, Execution(*device, Precision::bf16), classes);
    expected.run(0.1);
    found.run(0.1);
    const Tensor<double> value = found.value.copy(Device::cpu());
    const Tensor<float> gradients = found.parameters.gradients().copy(Device::cpu());
    // Of three operands each is off by 2^-9 of itself at most, W and h in the outputs and again in the
    // products with their gradient.
    const double bound = 5 * 0x1p-9;
    CHECK(value(0) == Approx(expected.value(0)).epsilon(bound));
    CHECK(value(1) == expected.value(1));
    const double error = relative_error(gradients, expected.parameters.gradients());
    CHECK(error <= bound);
    CHECK(relative_error(found.d_h.copy(Device::cpu()), expected.d_h) <= bound);
    // 11-bit significands are off by 2^-12 at most.
    CHECK(error >= 0x1p-11);
  }
}
