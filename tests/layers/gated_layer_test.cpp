// What is special to LSTM and GRU.

#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/layers/gru_layer.hpp"
#include "orthornn/layers/lstm_layer.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/errors.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

constexpr Index gated_inputs = 3, gated_hidden = 16;
constexpr double initial_bound = 0.25;  // 1 / sqrt(16)

template <class LayerOfKind, class Options>
ParameterSet<double> drawn(std::uint64_t seed) {
  ParameterSet<double> parameters;
  LayerOfKind layer(parameters, "cell", Options{.hidden_size = gated_hidden}, gated_inputs);
  parameters.allocate(Device::cpu());
  layer.initialize(seed);
  return parameters;
}

void check_uniform(const ParameterSet<double>& parameters, const std::string& name, Index first,
                   Index count) {
  CAPTURE(name, first);
  const TensorView<const double> values = parameters.value(parameters.find("cell/" + name));
  double largest = 0, sum = 0;
  for (Index i = first; i < first + count; ++i) {
    largest = std::max(largest, std::abs(values.data()[i]));
    sum += values.data()[i];
  }
  CHECK(largest <= initial_bound);
  // Of so many numbers the largest is hardly smaller than the bound, and the mean is near 0.
  CHECK(largest > 0.8 * initial_bound);
  CHECK(std::abs(sum / static_cast<double>(count)) <
        5 * initial_bound / std::sqrt(3.0 * static_cast<double>(count)));
}

}  // namespace

TEST_CASE("an LSTM starts as in PyTorch, with open forget gates", "[layers]") {
  const ParameterSet<double> parameters = drawn<LstmLayer<double>, Lstm>(1);
  check_uniform(parameters, "input_weights", 0, 4 * gated_hidden * gated_inputs);
  check_uniform(parameters, "recurrent_weights", 0, 4 * gated_hidden * gated_hidden);
  check_uniform(parameters, "input_bias", 0, 4 * gated_hidden);
  check_uniform(parameters, "recurrent_bias", 0, gated_hidden);
  check_uniform(parameters, "recurrent_bias", 2 * gated_hidden, 2 * gated_hidden);
  const TensorView<const double> bias = parameters.value(parameters.find("cell/recurrent_bias"));
  for (Index i = gated_hidden; i < 2 * gated_hidden; ++i) CHECK(bias(i) == 1);
}

TEST_CASE("a GRU starts as in PyTorch", "[layers]") {
  const ParameterSet<double> parameters = drawn<GruLayer<double>, Gru>(1);
  for (const char* name : {"input_weights", "recurrent_weights", "input_bias", "recurrent_bias"})
    check_uniform(parameters, name, 0, parameters.value(parameters.find(std::string("cell/") + name)).size());
}

TEST_CASE("the seed decides how LSTM and GRU start", "[layers]") {
  CHECK(equal(drawn<LstmLayer<double>, Lstm>(1).values(), drawn<LstmLayer<double>, Lstm>(1).values()));
  CHECK_FALSE(equal(drawn<LstmLayer<double>, Lstm>(1).values(), drawn<LstmLayer<double>, Lstm>(2).values()));
  CHECK_FALSE(equal(drawn<GruLayer<double>, Gru>(1).values(), drawn<GruLayer<double>, Gru>(2).values()));
}

TEMPLATE_TEST_CASE("LSTM and GRU have the same bits for every number of threads", "[layers]", Lstm, Gru) {
  // Each of two threads has sequences, and multiplies the inputs by W step by step. With four, one has none,
  // and all multiply before the first step.
  constexpr Index length = 5, batch = 43;
  const Tensor<float> x = normal_tensor<float>({length, batch, gated_inputs}, 1),
                      d_y = normal_tensor<float>({length, batch, gated_hidden}, 2);
  Tensor<std::int32_t> lengths(Shape{batch});
  for (Index b = 0; b < batch; ++b) lengths(b) = static_cast<std::int32_t>(b % (length + 1));
  const auto run = [&](int threads) {
    const Threads scope(threads);
    ParameterSet<float> parameters;
    GatedLayer<float, TestType> layer(parameters, "cell", TestType{gated_hidden}, gated_inputs);
    parameters.allocate(Device::cpu());
    layer.initialize(1);
    layer.prepare();
    Saved saved(Device::cpu()), scratch(Device::cpu());
    const SequenceInput<float> input{.vectors = x, .lengths = lengths};
    Tensor<float> y(d_y.shape());
    copy<float>(layer.forward(input, {}, {}, saved), y);
    Tensor<float> d_output = d_y.copy(), d_input(x.shape());
    layer.backward(input, {.d_output = d_output, .d_input = d_input}, saved, scratch);
    return std::array{std::move(y), parameters.gradients().copy(), std::move(d_input)};
  };
  const auto alone = run(1);
  for (const int threads : {2, 4}) {
    CAPTURE(threads);
    const auto shared = run(threads);
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same_bits(alone[i], shared[i]));
  }
}

TEST_CASE("LSTM and GRU refuse sizes that cannot be", "[layers][errors]") {
  ParameterSet<float> parameters;
  CHECK_THAT(error_message<ValueError>([&] { LstmLayer<float>(parameters, "a", Lstm{0}, 3); }),
             contains("hidden size 0"));
  CHECK_THAT(error_message<ValueError>([&] { GruLayer<float>(parameters, "b", Gru{4}, 0); }),
             contains("0 inputs"));
  LstmLayer<float> layer(parameters, "d", Lstm{4}, 3);
  parameters.allocate(Device::cpu());
  const Tensor<float> x(Shape{2, 1, 3});
  Saved saved(Device::cpu());
  CHECK_THAT(error_message<ValueError>([&] { layer.forward({.vectors = x}, {}, {}, saved); }),
             contains("before prepare"));
  // 4 N^2 numbers do not fit in 63 bits.
  ParameterSet<float> large;
  CHECK_THROWS_AS(LstmLayer<float>::add_parameters(large, "c", Lstm{Index{1} << 40}, 1), ShapeError);
}

}  // namespace orthornn::testing
