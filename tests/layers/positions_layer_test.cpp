#include "orthornn/layers/positions_layer.hpp"

#include <cmath>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/lengths.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"

namespace orthornn::testing {
namespace {

constexpr Index vector_size = 5, vector_count = 9;

/// A copy on the host.
template <class T>
Tensor<std::remove_const_t<T>> on_host(TensorView<T> view) {
  Tensor<std::remove_const_t<T>> tensor(view.shape());
  copy<std::remove_const_t<T>>(view, tensor);
  return tensor;
}

/// A layer with vectors from N(0, 1) for nine steps.
template <class T>
struct PositionsCase {
  Device device;
  ParameterSet<T> parameters;
  PositionsLayer<T> layer{parameters, "positions", {.steps = vector_count}, vector_size};
  Saved saved{device}, scratch{device};

  explicit PositionsCase(Device where = Device::cpu()) : device(where) {
    parameters.allocate(device);
    copy<T>(normal_tensor<T>({vector_count, vector_size}, 1).copy(device), parameters.value(0));
    layer.prepare();
  }

  /// What a forward and a backward give, on the host.
  struct Result {
    Tensor<T> y, last, d_x, gradient;
  };
  /// `before`, [B, 1], is empty for sequences that begin.
  Result run(const Tensor<T>& x, const Tensor<T>& d_y, const Tensor<std::int32_t>& lengths,
             const Tensor<T>& before, bool adds = false) {
    const Tensor<T> x_there = x.copy(device);
    const Tensor<std::int32_t> lengths_there = lengths.copy(device);
    Tensor<T> d_output = d_y.copy(device), d_x = x.copy(device), d_before = before.copy(device);
    // What is written over the first state must not change the backward.
    Tensor<T> last = before.empty() ? Tensor<T>(Shape{x.shape()[1], 1}, device) : before.copy(device);
    const SequenceInput<T> input{.vectors = x_there, .lengths = lengths_there};
    const TensorView<const T> start[] = {last.view()};
    const TensorView<T> d_start[] = {d_before.view()};
    const TensorView<T> end[] = {last.view()};
    const States<const T> starts = before.empty() ? States<const T>() : States<const T>(start);
    Tensor<T> y = on_host(layer.forward(input, starts, end, saved));
    const Gradients mode = adds ? Gradients::add : Gradients::overwrite;
    layer.backward(input,
                   {.d_output = d_output,
                    .d_input = d_x,
                    .d_start = before.empty() ? States<T>() : States<T>(d_start),
                    .input = mode,
                    .parameters = mode},
                   saved, scratch);
    for (const T d : d_before.copy(Device::cpu())) CHECK(d == 0);
    return {std::move(y), last.copy(Device::cpu()), d_x.copy(Device::cpu()), on_host(parameters.gradient(0))};
  }
};

template <class T>
Tensor<T> column(std::initializer_list<T> values) {
  Tensor<T> tensor(Shape{static_cast<Index>(values.size()), 1});
  std::copy(values.begin(), values.end(), tensor.begin());
  return tensor;
}

const Tensor<std::int32_t> all_live(Shape{0});

}  // namespace

TEMPLATE_TEST_CASE("each live step gets the vector of its place", "[layers]", float, double) {
  using T = TestType;
  PositionsCase<T> c;
  const Tensor<T> x = normal_tensor<T>({4, 3, vector_size}, 2),
                  d_y = normal_tensor<T>({4, 3, vector_size}, 3);
  const Tensor<std::int32_t> lengths = lengths_of({4, 0, 2});
  const auto found = c.run(x, d_y, lengths, column<T>({5, 9, 0}));
  const TensorView<const T> vectors = std::as_const(c.parameters).value(0);
  const Index first[] = {5, 9, 0};
  Tensor<double> gradient(Shape{vector_count, vector_size});
  for (Index t = 0; t < 4; ++t) {
    for (Index b = 0; b < 3; ++b) {
      for (Index n = 0; n < vector_size; ++n) {
        const bool live = t < lengths(b);
        REQUIRE(found.y(t, b, n) == x(t, b, n) + (live ? vectors(first[b] + t, n) : T{0}));
        if (live) gradient(first[b] + t, n) += static_cast<double>(d_y(t, b, n));
      }
    }
  }
  CHECK(equal(found.last, column<T>({9, 9, 2})));
  CHECK(equal(found.d_x, d_y));
  // A sum of at most three terms in double, rounded once.
  for (Index i = 0; i < gradient.size(); ++i)
    REQUIRE(found.gradient.data()[i] == static_cast<T>(gradient.data()[i]));
}

TEST_CASE("gradients of positions are added where that is asked for", "[layers]") {
  PositionsCase<double> c;
  const Tensor<double> x = normal_tensor<double>({4, 3, vector_size}, 2),
                       d_y = normal_tensor<double>({4, 3, vector_size}, 3);
  // Sequences that go on leave gradients of the last vectors, which must not stay.
  c.run(x, d_y, all_live, column<double>({5, 5, 5}));
  const auto once = c.run(x, d_y, all_live, {});
  for (Index step = 4; step < vector_count; ++step)
    for (Index n = 0; n < vector_size; ++n) CHECK(once.gradient(step, n) == 0);
  const auto twice = c.run(x, d_y, all_live, {}, true);
  for (Index i = 0; i < once.gradient.size(); ++i)
    CHECK(twice.gradient.data()[i] == 2 * once.gradient.data()[i]);
  for (Index i = 0; i < x.size(); ++i) CHECK(twice.d_x.data()[i] == x.data()[i] + d_y.data()[i]);
}

TEST_CASE("positions have the same bits for every number of threads", "[layers]") {
  const auto run = [](int threads) {
    const Threads scope(threads);
    return PositionsCase<float>().run(normal_tensor<float>({9, 7, vector_size}, 2),
                                      normal_tensor<float>({9, 7, vector_size}, 3), all_live, {});
  };
  const auto alone = run(1), shared = run(4);
  CHECK(same_bits(alone.y, shared.y));
  CHECK(same_bits(alone.gradient, shared.gradient));
}

TEST_CASE("step by step, positions go on where the last step was", "[layers][nn]") {
  const ModelOptions options{DenseInput{3}, {Linear{4}, Positions{.steps = 6}, Gru{5}}, EveryStep{2}};
  SequenceModel<float> model(Device::cpu(), options, 5);
  Batch batch;
  batch.reals(batch_names::features) = normal_tensor<float>({6, 2, 3}, 1);
  const Tensor<float> whole = on_host(model.forward(batch));
  SequenceModel<float>::Generator generator(model, 2);
  for (Index t = 0; t < 6; ++t)
    CHECK(equal(generator.step(batch.reals(batch_names::features).view()[t]), whole.view()[t]));
  check_says<ValueError>([&] { generator.step(batch.reals(batch_names::features).view()[0]); },
                         {"sequence 0 has 7 steps", "vectors for 6"});
}

TEST_CASE("positions start as small as the vectors of an embedding", "[layers]") {
  ParameterSet<double> parameters;
  PositionsLayer<double> layer(parameters, "positions", {.steps = 400}, 25);
  parameters.allocate(Device::cpu());
  layer.initialize(1);
  const double squares = frobenius_norm(parameters.values());
  // 400 squared norms of mean 1, whose sum deviates by sqrt(2 * 400 / 25).
  CHECK(std::abs(squares * squares - 400) < 5 * std::sqrt(2 * 400 / 25.0));
}

TEST_CASE("positions refuse steps without a vector", "[layers][errors]") {
  ParameterSet<float> parameters;
  check_says<ValueError>([&] { PositionsLayer<float>(parameters, "a", {.steps = 0}, 3); },
                         {"positions", "steps", "1"});
  check_says<ValueError>(
      [&] { PositionsLayer<float>(parameters, "a", {.steps = Positions::most_steps + 1}, 3); },
      {"positions", "steps"});
  check_says<ValueError>([&] { PositionsLayer<float>(parameters, "a", {}, 0); }, {"0 inputs"});

  PositionsCase<float> c;
  const auto run = [&](Index length, const Tensor<std::int32_t>& lengths, const Tensor<float>& before) {
    c.run(Tensor<float>({length, 2, vector_size}), Tensor<float>({length, 2, vector_size}), lengths, before);
  };
  run(12, lengths_of({9, 3}), {});  // what is padding needs no vector
  check_says<ValueError>([&] { run(10, all_live, {}); }, {"sequence 0 has 10 steps", "vectors for 9"});
  check_says<ValueError>([&] { run(4, all_live, column<float>({5, 6})); }, {"sequence 1 has 10 steps"});
  for (const float wrong : {-1.0F, 0.5F, std::nanf(""), INFINITY})
    check_says<ValueError>(
        [&] {
          run(1, all_live, column<float>({0, wrong}));
        },
        {"sequence 1", "whole number"});
  const Tensor<std::int32_t> symbols(Shape{2, 1});
  check_says<ValueError>([&] { c.layer.forward({.symbols = symbols}, {}, {}, c.saved); },
                         {"positions", "symbols"});
}

TEMPLATE_TEST_CASE("positions have the same bits on a GPU", "[layers][cuda]", float, double) {
  const auto device = gpu();
  if (!device) return;
  using T = TestType;
  PositionsCase<T> here, there(*device);
  const Tensor<T> x = normal_tensor<T>({4, 70, vector_size}, 2),
                  d_y = normal_tensor<T>({4, 70, vector_size}, 3);
  Tensor<std::int32_t> some(Shape{70});
  Tensor<T> before(Shape{70, 1});
  for (Index b = 0; b < 70; ++b) {
    some(b) = static_cast<std::int32_t>(b % 5);
    before(b, 0) = static_cast<T>(b % 6);
  }
  for (const bool adds : {false, true}) {
    for (const bool begins : {false, true}) {
      CAPTURE(adds, begins);
      const Tensor<T> first = begins ? Tensor<T>() : before.copy();
      const auto a = here.run(x, d_y, some, first, adds);
      const auto b = there.run(x, d_y, some, first, adds);
      CHECK(same_bits(a.y, b.y));
      CHECK(same_bits(a.last, b.last));
      CHECK(same_bits(a.d_x, b.d_x));
      CHECK(same_bits(a.gradient, b.gradient));
    }
  }
}

TEST_CASE("a GPU reports steps without a vector", "[layers][cuda][errors]") {
  const auto device = gpu();
  if (!device) return;
  PositionsCase<float> c(*device);
  const auto run = [&](Index length, const Tensor<float>& before) {
    c.run(Tensor<float>({length, 2, vector_size}), Tensor<float>({length, 2, vector_size}), all_live, before);
    synchronize(*device);
  };
  check_says<ValueError>([&] { run(10, {}); }, {"sequence 0", "more steps"});
  for (const float wrong : {6.0F, -1.0F, 0.5F, std::nanf("")})
    check_says<ValueError>([&] { run(4, column<float>({5, wrong})); }, {"sequence 1"});
  run(4, column<float>({5, 5}));
  // A sequence without steps has a state too.
  check_says<ValueError>(
      [&] {
        c.run(Tensor<float>({2, 2, vector_size}), Tensor<float>({2, 2, vector_size}), lengths_of({2, 0}),
              column<float>({0, -1}));
        synchronize(*device);
      },
      {"sequence 1"});
}

}  // namespace orthornn::testing
