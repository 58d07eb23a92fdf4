#include <initializer_list>

#include "orthornn/layers/linear_layer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

template <class T>
struct LinearLayerRun {
  ParameterSet<T> parameters;
  Tensor<T> y, d_x;

  LinearLayerRun(Index n, Index c, Index b, Index t, Device device)
      : y(Shape{t, b, c}, device), d_x(Shape{t, b, n}, device) {
    LinearLayer<T> layer(parameters, "readout", n, c, device);
    parameters.allocate(device);
    layer.initialize(3);
    copy<T>(normal_tensor<T>({c}, 1), parameters.value(parameters.find("readout/bias")));
    const Tensor<T> x = normal_tensor<T>({t, b, n}, 2).copy(device);
    Tensor<T> d_y = normal_tensor<T>({t, b, c}, 3).copy(device);
    Saved saved(device), scratch(device);
    layer.prepare();
    copy<T>(layer.forward({.vectors = x}, {}, {}, saved), y);
    layer.backward({.vectors = x}, {.d_output = d_y, .d_input = d_x}, saved, scratch);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("a linear layer on a GPU is that of the CPU", "[cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  // From 2048 vectors on, maps to up to 16 numbers have kernels of their own: with inputs in pairs and one by
  // one, for one warp and several, for one block of inputs and several.
  for (const auto& [n, c, b, t] : {std::array<Index, 4>{1, 1, 1, 1},
                                   {7, 9, 3, 2},
                                   {190, 9, 128, 2},
                                   {33, 70, 3, 5},
                                   {7, 1, 128, 33},
                                   {190, 10, 128, 16},
                                   {193, 4, 89, 23},
                                   {512, 12, 128, 17},
                                   {769, 16, 128, 16},
                                   {1536, 5, 128, 16},
                                   {1538, 2, 128, 16}}) {
    CAPTURE(n, c, b, t);
    const LinearLayerRun<double> expected(n, c, b, t, Device::cpu());
    const LinearLayerRun<T> found(n, c, b, t, *device);
    const double bound = tolerance::rounding<T>(n);
    CHECK(relative_error(found.y.copy(Device::cpu()), expected.y) <= bound);
    CHECK(relative_error(found.d_x.copy(Device::cpu()), expected.d_x) <= tolerance::rounding<T>(c));
    CHECK(relative_error(found.parameters.gradients().copy(Device::cpu()), expected.parameters.gradients()) <=
          tolerance::rounding<T>(t * b));
  }
}
