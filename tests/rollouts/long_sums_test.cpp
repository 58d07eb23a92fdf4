// Sums over two million columns, which in one float lose more than a per cent.

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "layers/affine_map.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "support/catch.hpp"

using namespace orthornn;

namespace {

constexpr Index sum_steps = 2000, sum_batch = 1000;
constexpr float summand = 0.1F;
// Every column has the same gradient; what remains is the rounding of the result to float.
const double exact_sum = static_cast<double>(sum_steps * sum_batch) * static_cast<double>(summand);
constexpr double sum_rounding = 1e-7;

Tensor<float> constant(const Shape& shape, float value) {
  Tensor<float> tensor(shape);
  std::fill(tensor.begin(), tensor.end(), value);
  return tensor;
}

void check_sum(float found) { CHECK(std::abs(static_cast<double>(found) / exact_sum - 1) < sum_rounding); }

}  // namespace

TEST_CASE("bias, modrelu and symbol gradients of two million columns keep their digits", "[cells]") {
  Saved scratch(Device::cpu());
  const Tensor<std::int32_t> symbols(Shape{sum_steps, sum_batch});
  const Tensor<float> g = constant({sum_steps, sum_batch, 1}, summand), weights = constant({1, 1}, 1);
  Tensor<float> d_weights(Shape{1, 1}), d_bias(Shape{1}), d_modrelu(Shape{1});
  AffineMap<float>(1, 1, Execution{})
      .backward({.symbols = symbols}, weights, g,
                {.weights = d_weights, .bias = d_bias, .signed_bias = d_modrelu, .states = g}, scratch);
  check_sum(d_weights(0, 0));
  check_sum(d_bias(0));
  check_sum(d_modrelu(0));
}

TEST_CASE("the gradient of a token that comes two million times keeps its digits", "[nn]") {
  // Q = 0, W = 1 and a readout of 1: a place of the token reaches its own output alone.
  ModelOptions options{
      .input = TokenEmbedding{2, 1},
      .cells = {OrthogonalCell{
          .hidden_size = 1, .transition = Unconstrained{}, .activation = Activation::identity}},
      .readout = EveryStep{1},
      .loss = Loss::mean_squared_error};
  SequenceModel<float> model(Device::cpu(), options);
  ParameterSet<float>& parameters = model.parameters();
  std::fill(parameters.values().begin(), parameters.values().end(), 0.0F);
  for (const char* name : {"cell/input_weights", "readout/weight"})
    parameters.value(parameters.find(name))(0, 0) = 1;
  Batch of;
  of.integers(batch_names::symbols) = Tensor<std::int32_t>(Shape{sum_steps, sum_batch});
  of.reals(batch_names::values) =
      constant({sum_steps, sum_batch, 1}, -0.5F);  // with y = 0, the gradient of the sum is 2 (0 + 0.5) = 1
  model.loss_and_gradient(of);
  // The sum over all places of a gradient of 1.
  const double places = static_cast<double>(sum_steps * sum_batch);
  CHECK(std::abs(parameters.gradient(parameters.find("embedding/vectors"))(0, 0) / places - 1) < 1e-5);
  CHECK(parameters.gradient(parameters.find("embedding/vectors"))(1, 0) == 0);
}
