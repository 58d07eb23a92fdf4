#include "nn/softmax_output_case.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEMPLATE_TEST_CASE("a softmax output on a GPU is that of the CPU", "[cuda][softmax]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  for (const Index most_outputs : {1000, 30}) {
    SoftmaxOutputCase<double> expected(most_outputs);
    SoftmaxOutputCase<T> found(most_outputs, *device);
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
