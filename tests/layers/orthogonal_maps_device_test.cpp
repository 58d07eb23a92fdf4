// Inverses of the orthogonal maps on a GPU. Their forward and backward are in layer_device_test.cpp.

#include "linalg/decompositions.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/orthogonal_conv_layer.hpp"
#include "orthornn/layers/orthogonal_linear_layer.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// The inverse of what a layer of as many outputs as inputs makes of random vectors is these vectors. Sums
/// have `terms` terms.
template <class T, class Options>
void check_undone(Device device, const Options& options, Index size, Index terms) {
  CAPTURE(Options::name, size);
  ParameterSet<T> parameters;
  typename Options::template Layer<T> layer(parameters, "layer", options, size, device);
  parameters.allocate(device);
  layer.initialize(3);
  const TensorView<T> bias = parameters.value(parameters.find("layer/bias"));
  copy<T>(normal_tensor<T>(bias.shape(), 5), bias);
  layer.prepare();
  const Tensor<T> here = normal_tensor<T>({3, 4, size}, 7), x = here.copy(device);
  Saved saved(device);
  Tensor<T> found(x.shape(), device);
  layer.inverse(layer.forward({.vectors = x}, {}, {}, saved), found);
  CHECK(relative_error(found.copy(Device::cpu()), here) <= tolerance::rounding<T>(4 * terms));
  Tensor<T> elsewhere(x.shape());
  CHECK_THROWS_AS(layer.inverse(x, elsewhere), DeviceError);
}

}  // namespace

TEMPLATE_TEST_CASE("inverses of orthogonal maps on a GPU undo them", "[layers][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  for (const auto& [name, kind] : Names<StiefelKind>::list) {
    if (kind == StiefelKind::weight_normalization && !has_decompositions(*device)) continue;
    CAPTURE(name);
    for (const Index size : {1, 7, 65})
      check_undone<TestType>(*device, OrthogonalLinear{.matrix = kind}, size, size);
    const OrthogonalConv map{.height = 3, .width = 5, .kernel_size = 1, .kernel = kind};
    for (const Index channels : {1, 9}) check_undone<TestType>(*device, map, 15 * channels, channels);
  }
}

}  // namespace orthornn::testing
