#include "nn/softmax_output_case.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

struct SoftmaxSizes {
  Index classes, most_outputs;
};

/// In one part, in several, and in rows that a block reads in packs, of which the last is not whole.
constexpr SoftmaxSizes softmax_sizes[] = {{11, 1000}, {11, 30}, {2501, 100'000}};

}  // namespace

TEMPLATE_TEST_CASE("a softmax output on a GPU is that of the CPU", "[cuda][softmax]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const auto& [classes, most_outputs] : softmax_sizes) {
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
  for (const auto& [classes, most_outputs] : softmax_sizes) {
    CAPTURE(classes, most_outputs);
    SoftmaxOutputCase<double> expected(most_outputs, {}, classes);
    SoftmaxOutputCase<float> found(most_outputs, Execution(*device, Precision::bf16), classes);
    expected.run(0.1);
    found.run(0.1);
    const Tensor<double> value = found.value.copy(Device::cpu());
    const Tensor<float> gradients = found.parameters.gradients().copy(Device::cpu());
    // A number with an 8-bit significand is off by 2^-8 at most, and by 0.42 of it in root mean square. The
    // gradient of the weights has four such errors: of W and h in the outputs, of the outputs' gradient, and
    // of h again. Together they are 0.85 * 2^-8; the bound is three times that.
    const double bound = 5 * 0x1p-9;
    CHECK(value(0) == Approx(expected.value(0)).epsilon(bound));
    CHECK(value(1) == expected.value(1));
    const double error = relative_error(gradients, expected.parameters.gradients());
    CHECK(error <= bound);
    CHECK(relative_error(found.d_h.copy(Device::cpu()), expected.d_h) <= bound);
    // With 11-bit significands it would be an eighth, 0.85 * 2^-11.
    CHECK(error >= 0x1p-10);
    found.output.loss(found.h, found.targets, found.value, found.scratch);
    CHECK(same_bits(found.value.copy(Device::cpu()), value));
  }
}
