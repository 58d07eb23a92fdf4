// Layers whose parameters have no memory yet say so.

#include "layers/all_layers.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/optim/optimizer.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"

namespace orthornn::testing {

TEST_CASE("parameters have no values and no gradients before allocate", "[parameters]") {
  ParameterSet<double> parameters;
  const Index weight = parameters.add("weight", {2, 3});
  const ParameterSet<double>& read = parameters;
  check_says<ValueError>([&] { parameters.value(weight); }, {"'weight'", "allocate"});
  check_says<ValueError>([&] { read.value(weight); }, {"'weight'", "allocate"});
  check_says<ValueError>([&] { parameters.gradient(weight); }, {"'weight'", "allocate"});
  check_says<ValueError>([&] { read.gradient(weight); }, {"'weight'", "allocate"});
  check_says<ValueError>([&] { make_optimizer<double>(Adam{}, parameters); }, {"allocate"});
  parameters.allocate(Device::cpu());
  CHECK(parameters.value(weight).shape() == Shape{2, 3});
  CHECK(read.gradient(weight).shape() == Shape{2, 3});
}

TEST_CASE("a layer of any kind says that allocate is missing", "[layers][parameters]") {
  for (const LayerKind<float>& kind : all_layers<float>(4, 5)) {
    CAPTURE(kind.name);
    ParameterSet<float> parameters;
    const auto layer = kind.make(Device::cpu())(parameters);
    if (parameters.list().empty()) continue;  // dropout
    check_says<ValueError>([&] { layer->initialize(1); }, {"allocate"});
    check_says<ValueError>([&] { layer->prepare(); }, {"allocate"});
    Saved saved(Device::cpu());
    const Tensor<float> x(Shape{3, 2, 4});
    CHECK_THROWS_AS(layer->forward({.vectors = x}, {}, {}, saved), Error);
    parameters.allocate(Device::cpu());
    layer->initialize(1);
    layer->prepare();
  }
}

}  // namespace orthornn::testing
