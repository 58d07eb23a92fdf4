#include "orthornn/layers/conv_lstm_layer.hpp"

#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "support/check_says.hpp"
#include "support/layer_case.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

/// A layer of frames of 2 channels.
template <class T>
auto layer_of(const ConvLstm& options) {
  return [options](ParameterSet<T>& parameters) {
    return std::make_unique<ConvLstmLayer<T>>(parameters, "layer", options,
                                              options.height * options.width * 2);
  };
}

}  // namespace

TEST_CASE("gradients of a convolutional LSTM on frames are those of finite differences",
          "[layers][gradient]") {
  const bool peepholes = GENERATE(false, true);
  for (const Index q : {1, 3, 5}) {
    CAPTURE(peepholes, q);
    LayerCase<double> c(
        layer_of<double>(
            {.hidden_size = 2, .height = 3, .width = 4, .kernel_size = q, .peepholes = peepholes}),
        3, 3);
    c.set_lengths({3, 0, 2});
    check_gradients(c);
  }
}

TEST_CASE("a convolutional LSTM of one pixel is an LSTM", "[layers]") {
  constexpr Index f = 3;
  LayerCase<double> frames(layer_of<double>({.hidden_size = f, .height = 1, .width = 1}), 5, 4);
  LayerCase<double> vectors(
      [](ParameterSet<double>& parameters) {
        return std::make_unique<LstmLayer<double>>(parameters, "layer", Lstm{f}, 2);
      },
      5, 4);
  // Of a kernel of 3 x 3 only the centre sees the pixel.
  const auto value = [](LayerCase<double>& c, const char* name) {
    return c.parameters.value(c.parameters.find(std::string("layer/") + name));
  };
  const auto copy_centre = [&](const char* from, const char* to, Index channels) {
    for (Index c = 0; c < channels; ++c) {
      for (Index row = 0; row < 4 * f; ++row)
        value(vectors, to)(row, c) = value(frames, from)(4 * channels + c, row);
    }
  };
  copy_centre("input_kernel", "input_weights", 2);
  copy_centre("hidden_kernel", "recurrent_weights", f);
  copy<double>(value(frames, "bias"), value(vectors, "input_bias"));
  std::ranges::fill(value(vectors, "recurrent_bias"), 0.0);
  copy<double>(frames.x, vectors.x);
  for (std::size_t i = 0; i < 2; ++i) copy<double>(frames.start[i], vectors.start[i]);
  frames.forward();
  vectors.forward();
  CHECK(relative_error(frames.y, vectors.y) <= tolerance::rounding<double>(5 * 3 * f));
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(relative_error(frames.last[i], vectors.last[i]) <= tolerance::rounding<double>(5 * 3 * f));
}

TEST_CASE("peepholes act on the gates of their own pixel", "[layers]") {
  const auto output = [](Index gate, Index pixel) {
    LayerCase<double> c(
        layer_of<double>({.hidden_size = 1, .height = 2, .width = 2, .kernel_size = 1, .peepholes = true}), 1,
        1);
    const TensorView<double> peepholes = c.parameters.value(c.parameters.find("layer/peepholes"));
    std::ranges::fill(peepholes, 0.0);
    if (gate >= 0) peepholes(gate, pixel) = 2;
    c.forward();
    return c.y.copy();
  };
  const Tensor<double> without = output(-1, 0);
  for (Index gate = 0; gate < 3; ++gate) {
    for (Index pixel = 0; pixel < 4; ++pixel) {
      const Tensor<double> with = output(gate, pixel);
      for (Index i = 0; i < 4; ++i) CHECK((with(0, 0, i) == without(0, 0, i)) == (i != pixel));
    }
  }
}

TEST_CASE("a convolutional LSTM begins with open forget gates", "[layers]") {
  ParameterSet<float> parameters;
  ConvLstmLayer<float> layer(parameters, "layer", {.hidden_size = 2, .peepholes = true}, 64);
  parameters.allocate(Device::cpu());
  layer.initialize(1);
  const TensorView<const float> bias = std::as_const(parameters).value(parameters.find("layer/bias"));
  for (Index i = 0; i < 8; ++i) CHECK(bias(i) == (i == 2 || i == 3 ? 1.0F : 0.0F));
  const TensorView<float> peepholes = parameters.value(parameters.find("layer/peepholes"));
  CHECK(peepholes.shape() == Shape{3, 128});
  CHECK(frobenius_norm(peepholes) == 0);
}

TEST_CASE("a convolutional LSTM has the same bits for every number of threads", "[layers]") {
  const auto run = [](int threads) {
    const Threads scope(threads);
    LayerCase<float> c(layer_of<float>({.height = 9, .peepholes = true}), 3, 5);
    c.forward();
    c.backward();
    return std::pair(c.parameters.gradients().copy(), c.dx.copy());
  };
  const auto alone = run(1), shared = run(4);
  CHECK(same_bits(alone.first, shared.first));
  CHECK(same_bits(alone.second, shared.second));
}

TEST_CASE("a convolutional LSTM refuses what are no frames", "[layers][errors]") {
  ParameterSet<float> parameters;
  check_says<ValueError>([&] { ConvLstmLayer<float>(parameters, "a", {.kernel_size = 2}, 64); },
                         {"convlstm", "kernel size 2", "odd"});
  check_says<ValueError>([&] { ConvLstmLayer<float>(parameters, "a", {}, 63); }, {"convlstm", "63 inputs"});
}

}  // namespace orthornn::testing
