// The map of the inputs of a recurrence on a GPU through the C interface, against the CPU.

#include "c_api/affine_case.hpp"
#include "support/gpu.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {

TEMPLATE_TEST_CASE("The map of inputs on a GPU through the C interface is that of the CPU", "[c_api][cuda]",
                   float, double) {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (const std::array<Index, 4>& shape : affine_shapes) {
    CAPTURE(shape[0], shape[1], shape[2], shape[3]);
    AffineCalls<double> expected(ORTHORNN_PRECISION_FP32, shape, nullptr);
    expected.run();
    AffineCalls<TestType> found(ORTHORNN_PRECISION_FP32, shape, &there);
    found.run();
    // Sums of K, N, or T B products.
    check_near(found, expected, tolerance::rounding<TestType>(std::max(shape[0] * shape[1], shape[3])));
  }
}

TEST_CASE("The map of inputs without steps or sequences on a GPU has gradients of zeros", "[c_api][cuda]") {
  const auto device = gpu();
  if (!device) return;
  const orthornn_device there = on_own_stream(*device);
  for (const std::array<Index, 4>& shape : empty_affine_shapes) {
    for (const bool has_bias : {true, false}) check_empty_affine(shape, &there, has_bias);
  }
}

}  // namespace orthornn::testing
