// Stack, Residual and Bidirectional against the same layers put together by hand.

#include <cmath>
#include <initializer_list>

#include "core/set_zero.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/bidirectional_layer.hpp"
#include "orthornn/layers/layer_options.hpp"
#include "orthornn/layers/residual_layer.hpp"
#include "orthornn/layers/stack_layer.hpp"
#include "support/check_says.hpp"
#include "support/layer_case.hpp"

namespace orthornn::testing {
namespace {

constexpr Index sequence_width = 4, sequence_length = 5, sequence_count = 3;
const std::vector<std::int32_t> sequence_lengths = {5, 0, 3};

using Made = std::unique_ptr<Layer<double>>;

/// What adds such a layer, for LayerCase.
auto made(const LayerOptions& options, const std::string& prefix = "layer",
          Index input_size = sequence_width) {
  return [=](ParameterSet<double>& parameters) {
    return make_layer<double>(parameters, prefix, options, input_size);
  };
}

auto made_stack(const std::vector<LayerOptions>& options) {
  return [=](ParameterSet<double>& parameters) {
    std::vector<Made> layers;
    Index size = sequence_width;
    for (std::size_t i = 0; i < options.size(); ++i) {
      layers.push_back(make_layer<double>(parameters, std::to_string(i), options[i], size));
      size = layers.back()->output_size();
    }
    return std::make_unique<StackLayer<double>>(std::move(layers));
  };
}

/// The case of one of the layers within another, which has its parameters from number `first` on.
void take_parameters(LayerCase<double>& inner, LayerCase<double>& whole, Index first) {
  copy<double>(whole.parameters.values().view().slice(first, inner.parameters.count()),
               inner.parameters.values());
}
Tensor<double> gradients_within(LayerCase<double>& whole, Index first, Index count) {
  Tensor<double> part(Shape{count});
  copy<double>(whole.parameters.gradients().view().slice(first, count), part);
  return part;
}

/// Each sequence's live steps the other way round.
Tensor<double> reversed(const Tensor<double>& x) {
  Tensor<double> result = x.copy();
  for (Index b = 0; b < sequence_count; ++b) {
    const Index live = sequence_lengths[static_cast<std::size_t>(b)];
    for (Index t = 0; t < live; ++t) copy<double>(x.view()[live - 1 - t][b], result.view()[t][b]);
  }
  return result;
}

/// Entries first .. first + count - 1 of every step.
Tensor<double> block(const Tensor<double>& x, Index first, Index count) {
  Tensor<double> result({x.shape()[0], x.shape()[1], count});
  for (Index t = 0; t < x.shape()[0]; ++t) {
    for (Index b = 0; b < x.shape()[1]; ++b) {
      for (Index n = 0; n < count; ++n) result(t, b, n) = x(t, b, first + n);
    }
  }
  return result;
}

Tensor<double> sum(const Tensor<double>& a, const Tensor<double>& b) {
  Tensor<double> result = a.copy();
  for (Index i = 0; i < a.size(); ++i) result.data()[i] += b.data()[i];
  return result;
}

}  // namespace

TEST_CASE("a residual adds its input", "[layers]") {
  LayerCase<double> whole(made(Residual{{Lstm{sequence_width}}}), sequence_length, sequence_count),
      inner(made(Lstm{sequence_width}), sequence_length, sequence_count);
  whole.set_lengths(sequence_lengths);
  inner.set_lengths(sequence_lengths);
  take_parameters(inner, whole, 0);
  for (LayerCase<double>* c : {&whole, &inner}) {
    c->forward();
    c->backward();
  }
  CHECK(equal(whole.y, sum(whole.x, inner.y)));
  CHECK(equal(whole.dx, sum(whole.dy, inner.dx)));
  CHECK(equal(whole.parameters.gradients(), inner.parameters.gradients()));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(equal(whole.last[i], inner.last[i]));
    CHECK(equal(whole.d_start[i], inner.d_start[i]));
  }
  // Numbers that are there already are kept.
  whole.forward();
  const Tensor<double> before = whole.dx.copy();
  whole.backward(Gradients::add);
  CHECK(relative_error(whole.dx, sum(before, before)) <= tolerance::rounding<double>(2));
}

TEST_CASE("a stack runs its layers one after the other", "[layers]") {
  LayerCase<double> whole(made_stack({Lstm{3}, Gru{2}}), sequence_length, sequence_count),
      below(made(Lstm{3}), sequence_length, sequence_count),
      above(made(Gru{2}, "layer", 3), sequence_length, sequence_count);
  for (LayerCase<double>* c : {&whole, &below, &above}) c->set_lengths(sequence_lengths);
  take_parameters(below, whole, 0);
  take_parameters(above, whole, below.parameters.count());
  for (std::size_t i = 0; i < 2; ++i) below.start[i] = whole.start[i].copy();
  above.start[0] = whole.start[2].copy();
  below.x = whole.x.copy();
  whole.forward();
  below.forward();
  above.x = below.y.copy();
  above.forward();
  CHECK(equal(whole.y, above.y));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(equal(whole.last[i], below.last[i]));
    below.d_last[i] = whole.d_last[i].copy();
  }
  CHECK(equal(whole.last[2], above.last[0]));
  above.d_last[0] = whole.d_last[2].copy();
  above.dy = whole.dy.copy();
  above.backward();
  below.dy = above.dx.copy();
  below.backward();
  whole.backward();
  CHECK(equal(whole.dx, below.dx));
  CHECK(equal(gradients_within(whole, 0, below.parameters.count()), below.parameters.gradients()));
  CHECK(equal(gradients_within(whole, below.parameters.count(), above.parameters.count()),
              above.parameters.gradients()));
  CHECK(equal(whole.d_start[2], above.d_start[0]));
}

TEST_CASE("a bidirectional layer reads live steps forward and backward", "[layers]") {
  constexpr Index n = 3;
  LayerCase<double> whole(made(Bidirectional{{Lstm{n}}}), sequence_length, sequence_count),
      ahead(made(Lstm{n}), sequence_length, sequence_count),
      back(made(Lstm{n}), sequence_length, sequence_count);
  const Index count = ahead.parameters.count();
  REQUIRE(whole.parameters.count() == 2 * count);
  for (LayerCase<double>* c : {&whole, &ahead, &back}) c->set_lengths(sequence_lengths);
  take_parameters(ahead, whole, 0);
  take_parameters(back, whole, count);
  ahead.x = whole.x.copy();
  back.x = reversed(whole.x);
  for (std::size_t i = 0; i < 2; ++i) {
    ahead.start[i] = whole.start[i].copy();
    back.start[i] = whole.start[2 + i].copy();
    ahead.d_last[i] = whole.d_last[i].copy();
    back.d_last[i] = whole.d_last[2 + i].copy();
  }
  ahead.dy = block(whole.dy, 0, n);
  back.dy = reversed(block(whole.dy, n, n));
  for (LayerCase<double>* c : {&whole, &ahead, &back}) {
    c->forward();
    c->backward();
  }
  CHECK(whole.y.shape() == Shape{sequence_length, sequence_count, 2 * n});
  CHECK(equal(block(whole.y, 0, n), ahead.y));
  CHECK(equal(block(whole.y, n, n), reversed(back.y)));
  // The second direction ends at step 0: its last state is its output there.
  for (Index k = 0; k < n; ++k) CHECK(whole.last[2](0, k) == whole.y(0, 0, n + k));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(equal(whole.last[i], ahead.last[i]));
    CHECK(equal(whole.last[2 + i], back.last[i]));
    CHECK(equal(whole.d_start[i], ahead.d_start[i]));
    CHECK(equal(whole.d_start[2 + i], back.d_start[i]));
  }
  CHECK(equal(gradients_within(whole, 0, count), ahead.parameters.gradients()));
  CHECK(equal(gradients_within(whole, count, count), back.parameters.gradients()));
  CHECK(relative_error(whole.dx, sum(ahead.dx, reversed(back.dx))) <= tolerance::rounding<double>(2));
}

TEST_CASE("symbols are reversed like vectors", "[layers]") {
  LayerCase<double> from_symbols(made(Bidirectional{{Gru{2}}}), sequence_length, sequence_count, true),
      from_vectors(made(Bidirectional{{Gru{2}}}), sequence_length, sequence_count);
  for (LayerCase<double>* c : {&from_symbols, &from_vectors}) c->set_lengths(sequence_lengths);
  copy<double>(from_symbols.parameters.values(), from_vectors.parameters.values());
  for (std::size_t i = 0; i < 2; ++i) from_vectors.start[i] = from_symbols.start[i].copy();
  from_vectors.x = Tensor<double>(from_vectors.x.shape());
  for (Index t = 0; t < sequence_length; ++t) {
    for (Index b = 0; b < sequence_count; ++b) from_vectors.x(t, b, from_symbols.symbols(t, b)) = 1;
  }
  from_symbols.forward();
  from_vectors.forward();
  CHECK(relative_error(from_symbols.y, from_vectors.y) <= tolerance::rounding<double>(sequence_width));
}

TEST_CASE("a container is described by its layers", "[layers]") {
  ParameterSet<double> parameters;
  const auto layer =
      make_layer<double>(parameters, "layer",
                         Bidirectional{{OrthogonalCell{.hidden_size = 6, .transition = Cwy{.reflections = 2}},
                                        Residual{{RmsNorm{}, Lstm{6}}}}},
                         sequence_width);
  const LayerDescription found = layer->describe(sequence_length, sequence_count);
  CHECK(found.kind == "bidirectional");
  CHECK(found.input_size == sequence_width);
  CHECK(found.output_size == 12);
  REQUIRE(found.layers.size() == 2);
  REQUIRE(found.layers[1].layers.size() == 2);
  CHECK(found.layers[1].layers[0].kind == "cwy");
  CHECK(found.layers[1].layers[0].form == "factored");
  const LayerDescription& residual = found.layers[1].layers[1];
  CHECK(residual.kind == "residual");
  REQUIRE(residual.layers.size() == 1);
  CHECK(residual.layers[0].layers[0].kind == "rms_norm");
  CHECK(residual.layers[0].layers[1].rollout == "stepwise");

  REQUIRE(layer->state_count() == 6);
  CHECK(layer->state_name(0) == "forward.0.h");
  CHECK(layer->state_name(2) == "forward.1.1.c");
  CHECK(layer->state_name(4) == "backward.1.1.h");
  CHECK(layer->state_shape(5, 7) == Shape{7, 6});
  CHECK_FALSE(layer->is_causal());

  std::vector<std::string> names;
  for (const Parameter& parameter : parameters.list()) names.push_back(parameter.name);
  CHECK(std::count(names.begin(), names.end(), "layer/forward/0/reflection_vectors") == 1);
  CHECK(std::count(names.begin(), names.end(), "layer/forward/1/0/gain") == 1);
  CHECK(std::count(names.begin(), names.end(), "layer/backward/1/1/recurrent_bias") == 1);
}

TEST_CASE("a layer is causal where all within it are", "[layers]") {
  const auto causal = [](const LayerOptions& options) {
    ParameterSet<double> parameters;
    return make_layer<double>(parameters, "layer", options, sequence_width)->is_causal();
  };
  CHECK(causal(Lstm{3}));
  CHECK(causal(Residual{{Gru{3}, Linear{sequence_width}}}));
  CHECK_FALSE(causal(Residual{{Bidirectional{{Gru{3}}}, Linear{sequence_width}}}));
}

TEST_CASE("launches add up, and what cannot be recorded stays so", "[layers]") {
  const auto launches = [](const LayerOptions& options) {
    ParameterSet<double> parameters;
    return make_layer<double>(parameters, "layer", options, sequence_width)
        ->launches(sequence_length, sequence_count);
  };
  const Index lstm = *launches(Lstm{sequence_width}), gru = *launches(Gru{sequence_width});
  CHECK(lstm > 0);
  CHECK(launches(Residual{{Lstm{sequence_width}, Dropout{}, Gru{sequence_width}}}) == lstm + gru);
  const OrthogonalCell unrecordable{.hidden_size = sequence_width, .transition = MatrixExponential{}};
  CHECK(launches(Residual{{Lstm{sequence_width}, unrecordable}}) == std::nullopt);
}

TEST_CASE("the orthogonality error of a stack is the largest, and NaN where there is one", "[layers]") {
  const OrthogonalCell cell{
      .hidden_size = sequence_width, .transition = Unconstrained{}, .activation = Activation::tanh};
  LayerCase<double> c(made_stack({cell, Lstm{sequence_width}, cell}), sequence_length, sequence_count);
  const auto matrix = [&](const char* name) { return c.parameters.value(c.parameters.find(name)); };
  const auto error_with = [&](double first, double second) {
    for (const auto& [name, factor] : {std::pair("0/matrix", first), std::pair("2/matrix", second)}) {
      set_zero(matrix(name));
      for (Index i = 0; i < sequence_width; ++i) matrix(name)(i, i) = factor;
    }
    c.layer->prepare();
    return c.layer->orthogonality_error().value();
  };
  CHECK(error_with(2, 3) == 8);
  CHECK(error_with(3, 2) == 8);
  CHECK(error_with(1, 1) == 0);
  CHECK(std::isnan(error_with(std::nan(""), 2)));
  CHECK(std::isnan(error_with(2, std::nan(""))));
  LayerCase<double> other(made(Residual{{Lstm{sequence_width}}}), sequence_length, sequence_count);
  other.layer->prepare();
  CHECK(other.layer->orthogonality_error() == std::nullopt);
}

TEST_CASE("layers of one kind start differently at every place", "[layers]") {
  const Residual two{{Gru{sequence_width}, Gru{sequence_width}}};
  LayerCase<double> c(made_stack({two, two}), sequence_length, sequence_count),
      again(made_stack({two, two}), sequence_length, sequence_count);
  c.layer->initialize(1);
  again.layer->initialize(1);
  CHECK(equal(c.parameters.values(), again.parameters.values()));
  const Index count = c.parameters.count() / 4;
  for (Index i = 0; i < 4; ++i) {
    for (Index k = 0; k < i; ++k)
      CHECK(c.parameters.values().data()[i * count] != c.parameters.values().data()[k * count]);
  }
  again.layer->initialize(2);
  CHECK_FALSE(equal(c.parameters.values(), again.parameters.values()));
}

TEST_CASE("a container asks its layers for their first states", "[layers]") {
  const OrthogonalCell cell{.hidden_size = sequence_width,
                            .transition = Cwy{.reflections = 2},
                            .activation = Activation::tanh,
                            .learn_initial_state = true};
  LayerCase<double> c(made_stack({Lstm{sequence_width}, Residual{{cell}}}), sequence_length, sequence_count);
  c.layer->initial_state(views_of(c.start));
  CHECK(frobenius_norm(c.start[0]) == 0);
  CHECK(frobenius_norm(c.start[1]) == 0);
  const TensorView<double> learned = c.parameters.value(c.parameters.find("1/0/initial_state"));
  for (Index b = 0; b < sequence_count; ++b) {
    for (Index n = 0; n < sequence_width; ++n) CHECK(c.start[2](b, n) == learned(n));
  }
}

TEST_CASE("the Dropouts of a container have masks of their own, and its key", "[layers]") {
  LayerCase<double> c(made_stack({Dropout{.rate = 0.5}, Residual{{Dropout{.rate = 0.5}}}}), 20, 20);
  std::fill(c.x.begin(), c.x.end(), 1.0);
  c.set_noise(1);
  c.forward();
  // y = 2 m (1 + 2 m') for masks m and m': 0, 2 or 6; one mask twice would give no 2.
  Index counts[7] = {};
  for (const double y : c.y) ++counts[static_cast<std::size_t>(y)];
  const auto quarter = static_cast<double>(c.y.size()) / 4;
  CHECK(std::abs(static_cast<double>(counts[0]) - 2 * quarter) < 0.2 * quarter);
  CHECK(std::abs(static_cast<double>(counts[2]) - quarter) < 0.2 * quarter);
  CHECK(std::abs(static_cast<double>(counts[6]) - quarter) < 0.2 * quarter);
  c.noise = Tensor<std::uint64_t>();
  c.forward();
  for (const double y : c.y) REQUIRE(y == 2);
}

TEST_CASE("containers refuse layers that do not fit", "[layers][errors]") {
  ParameterSet<double> parameters, others;
  int number = 0;
  const auto make = [&](const LayerOptions& options, Index size, ParameterSet<double>& set) {
    return make_layer<double>(set, std::to_string(number++), options, size);
  };
  const auto pair = [](Made first, Made second) {
    std::vector<Made> layers;
    layers.push_back(std::move(first));
    layers.push_back(std::move(second));
    return layers;
  };
  check_says<ValueError>([&] { StackLayer<double>(std::vector<Made>()); }, {"no layers"});
  check_says<ValueError>(
      [&] {
        Made first = make(Lstm{5}, 3, parameters);
        StackLayer<double>(pair(std::move(first), make(Gru{2}, 4, parameters)));
      },
      {"layer 1", "reads 4", "layer 0 returns 5"});
  check_says<ValueError>([&] { ResidualLayer<double>(make(Lstm{5}, 3, parameters)); },
                         {"read 3", "return 5"});
  check_says<ValueError>(
      [&] {
        Made first = make(Lstm{5}, 3, parameters);
        BidirectionalLayer<double>(std::move(first), make(Lstm{5}, 4, parameters));
      },
      {"read 3 and 4"});
  // Parameters of two sets, in another order, and with others between them.
  check_says<ValueError>(
      [&] { StackLayer<double>(pair(make(Lstm{5}, 3, parameters), make(Gru{2}, 5, others))); },
      {"parameters apart"});
  check_says<ValueError>(
      [&] {
        Made second = make(Gru{2}, 5, parameters), first = make(Lstm{5}, 3, parameters);
        StackLayer<double>(pair(std::move(first), std::move(second)));
      },
      {"parameters apart"});
  check_says<ValueError>(
      [&] {
        Made first = make(Lstm{5}, 3, parameters);
        make(Linear{1}, 1, parameters);
        StackLayer<double>(pair(std::move(first), make(Gru{2}, 5, parameters)));
      },
      {"parameters apart"});
  LayerCase<float> c(
      [](ParameterSet<float>& set) { return make_layer<float>(set, "a", Residual{{Lstm{3}}}, 3); }, 2, 2,
      true);
  check_says<ValueError>([&] { c.forward(); }, {"residual", "symbols"});
}

}  // namespace orthornn::testing
