#pragma once
// What the tests of layers that map every step by an affine map share.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/check_says.hpp"
#include "support/layer_case.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {

/// A layer of these options as they begin, but with a bias that is not 0.
template <class Options>
struct MapCase {
  using MapLayer = typename Options::template Layer<double>;

  ParameterSet<double> parameters;
  MapLayer layer;
  Saved saved{Device::cpu()}, scratch{Device::cpu()};

  MapCase(const Options& options, Index inputs, std::uint64_t seed = 1)
      : layer(parameters, "layer", options, inputs) {
    parameters.allocate(Device::cpu());
    layer.initialize(seed);
    const TensorView<double> bias = parameters.value(parameters.find("layer/bias"));
    copy<double>(normal_tensor<double>(bias.shape(), 7), bias);
    layer.prepare();
  }
  MapCase(MapCase&&) = delete;  // the layer refers to the parameters

  Tensor<double> forward(const Tensor<double>& x) {
    saved.clear();
    Tensor<double> y({x.shape()[0], x.shape()[1], layer.output_size()});
    copy<double>(layer.forward({.vectors = x}, {}, {}, saved), y);
    return y;
  }
  /// Gradient of the input for the gradient d of the output.
  Tensor<double> transposed(const Tensor<double>& d) {
    const Tensor<double> x({d.shape()[0], d.shape()[1], layer.input_size()});
    forward(x);
    Tensor<double> d_output = d.copy(), d_input(x.shape());
    layer.backward({.vectors = x}, {.d_output = d_output, .d_input = d_input}, saved, scratch);
    return d_input;
  }
  /// The matrix [N, K] of the map, from what it makes of unit vectors.
  Tensor<double> matrix() {
    const Index n = layer.output_size(), k = layer.input_size();
    Tensor<double> units({1, k + 1, k}), found({n, k});
    for (Index i = 0; i < k; ++i) units(0, i, i) = 1;
    const Tensor<double> y = forward(units);  // the last input is 0
    for (Index row = 0; row < n; ++row) {
      for (Index i = 0; i < k; ++i) found(row, i) = y(0, i, row) - y(0, k, row);
    }
    return found;
  }
};

/// The norms of all vectors of x [T, B, N].
inline std::vector<double> norms_of(const Tensor<double>& x) {
  std::vector<double> norms;
  for (Index t = 0; t < x.shape()[0]; ++t) {
    for (Index b = 0; b < x.shape()[1]; ++b) norms.push_back(frobenius_norm(x.view()[t][b]));
  }
  return norms;
}

inline Tensor<double> entrywise_difference(const Tensor<double>& a, const Tensor<double>& b) {
  Tensor<double> result = a.copy();
  for (Index i = 0; i < result.size(); ++i) result.data()[i] -= b.data()[i];
  return result;
}

/// Outputs and gradients of a layer of these options have the same bits for every number of threads.
template <class Options>
void check_threads(const Options& options, Index inputs, Index length, Index batch) {
  using MapLayer = typename Options::template Layer<float>;
  const auto run = [&](int threads) {
    const Threads scope(threads);
    LayerCase<float> c(
        [&](ParameterSet<float>& parameters) {
          return std::make_unique<MapLayer>(parameters, "layer", options, inputs);
        },
        length, batch);
    c.forward();
    c.backward();
    return std::tuple(c.y.copy(), c.parameters.gradients().copy(), c.dx.copy());
  };
  const auto alone = run(1), shared = run(4);
  CHECK(same_bits(std::get<0>(alone), std::get<0>(shared)));
  CHECK(same_bits(std::get<1>(alone), std::get<1>(shared)));
  CHECK(same_bits(std::get<2>(alone), std::get<2>(shared)));
}

/// Neither a layer nor its parameters can be made of these options, for a reason that has these words.
template <class Options>
void check_refused_map(const Options& options, Index inputs, std::initializer_list<std::string> words) {
  using MapLayer = typename Options::template Layer<float>;
  ParameterSet<float> parameters;
  check_says<ValueError>([&] { MapLayer::add_parameters(parameters, "a", options, inputs); }, words);
  check_says<ValueError>([&] { MapLayer(parameters, "a", options, inputs); }, words);
  CHECK(parameters.list().empty());
}

}  // namespace orthornn::testing
