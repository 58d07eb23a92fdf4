// Every layer against central differences in double, twice before its backwards, and one step at a time.

#include <algorithm>
#include <initializer_list>

#include "layers/all_layers.hpp"
#include "layers/long_sequences.hpp"
#include "orthornn/core/error.hpp"
#include "support/error_message.hpp"
#include "support/layer_case.hpp"

namespace orthornn::testing {
namespace {

constexpr Index layer_inputs = 3, layer_outputs = 5;

/// Calls what(kind, from_symbols) for everything that a kind reads.
template <class T, class What>
void for_all_kinds(const What& what) {
  for (const LayerKind<T>& kind : all_layers<T>(layer_inputs, layer_outputs)) {
    for (const bool symbols : {false, true}) {
      if (!(symbols ? kind.reads_symbols : kind.reads_vectors)) continue;
      CAPTURE(kind.name, symbols);
      what(kind.make(Device::cpu()), symbols);
    }
  }
}

LayerKind<float>::Add layer_called(const std::string& name) {
  for (const LayerKind<float>& kind : all_layers<float>(layer_inputs, layer_outputs)) {
    if (kind.name == name) return kind.make(Device::cpu());
  }
  throw ValueError("no layer " + name);
}

}  // namespace

TEST_CASE("gradients of every layer are those of finite differences", "[layers][gradient][long]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    for (const bool with_lengths : {false, true}) {
      for (const bool own_start : {false, true}) {
        CAPTURE(with_lengths, own_start);
        LayerCase<double> c(make, 4, 4, symbols);
        if (with_lengths) c.set_lengths({4, 0, 2, 1});
        c.set_noise(7);
        c.own_start = own_start;
        check_gradients(c);
      }
    }
  });
}

TEST_CASE("a layer may run twice before its backwards", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    for (const bool own_start : {false, true}) {
      CAPTURE(own_start);
      LayerCase<double> first(make, 4, 3, symbols), second(make, 6, 2, symbols, Device::cpu(), 0.4, 9);
      first.own_start = own_start;
      first.set_noise(7);
      second.set_noise(8);
      second.set_lengths({6, 3});
      check_two_passes(first, second);
    }
  });
}

TEST_CASE("a layer may run on its own output", "[layers][gradient]") {
  for (const LayerKind<double>& kind : all_layers<double>(4, 4)) {
    if (!kind.reads_vectors) continue;
    CAPTURE(kind.name);
    LayerCase<double> c(kind.make(Device::cpu()), 3, 2);
    const Layer<double>& layer = *c.layer;
    if (layer.input_size() != layer.output_size()) continue;
    c.set_noise(7);
    c.set_lengths({3, 1});
    TensorView<const double> middle;
    const auto loss = [&] {
      c.layer->prepare();
      c.saved.clear();
      middle = layer.forward(c.input(), {}, {}, c.saved);
      return inner_product(c.dy, layer.forward(c.input().with_vectors(middle), {}, {}, c.saved));
    };
    loss();
    copy<double>(c.dy, c.d_output);
    Tensor<double> d_middle(c.y.shape());
    layer.backward(c.input().with_vectors(middle), {.d_output = c.d_output, .d_input = d_middle}, c.saved,
                   c.scratch);
    layer.backward(c.input(), {.d_output = d_middle, .d_input = c.dx, .parameters = Gradients::add}, c.saved,
                   c.scratch);
    const Tensor<double> gradients = c.parameters.gradients().copy();
    if (c.parameters.count() > 0) {
      CHECK(relative_error(gradients, finite_differences(c.parameters.values(), loss)) <=
            tolerance::finite_difference);
    }
    CHECK(relative_error(c.dx, finite_differences(c.x, loss)) <= tolerance::finite_difference);
  }
}

TEMPLATE_TEST_CASE("one step of a layer at a time gives the bits of the whole", "[layers]", float, double) {
  for_all_kinds<TestType>([](const auto& make, bool symbols) {
    for (const Index batch : {1, 3, 17}) {
      CAPTURE(batch);
      LayerCase<TestType> c(make, 5, batch, symbols);
      if (c.layer->is_causal()) check_generation(c);
    }
  });
}

TEST_CASE("last states may take the place of the first", "[layers]") {
  for_all_kinds<float>([](const auto& make, bool symbols) {
    LayerCase<float> apart(make, 4, 5, symbols), together(make, 4, 5, symbols);
    // The last states of a sequence without a step are its first.
    for (LayerCase<float>* c : {&apart, &together}) c->set_lengths({4, 0, 1, 4, 3});
    apart.forward();
    together.layer->prepare();
    const auto y = together.layer->forward(together.input(), together.start_views(), views_of(together.start),
                                           together.saved);
    CHECK(equal(y, apart.y));
    for (std::size_t i = 0; i < apart.last.size(); ++i) CHECK(equal(together.start[i], apart.last[i]));
  });
}

TEST_CASE("recurrences take more than 65,535 steps", "[layers]") { check_long_sequences(Device::cpu()); }

TEST_CASE("a sequence in two parts has the gradients of the whole", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    LayerCase<double> whole(make, 5, 3, symbols), parts(make, 5, 3, symbols);
    if (!whole.layer->is_causal()) return;
    whole.forward();
    whole.backward();
    Layer<double>& layer = *parts.layer;
    layer.prepare();
    const auto input = [&](Index first, Index count) {
      SequenceInput<double> part;
      if (symbols) {
        part.symbols = std::as_const(parts.symbols).view().slice(first, count);
      } else {
        part.vectors = std::as_const(parts.x).view().slice(first, count);
      }
      return part;
    };
    // The states between the parts, and their gradients.
    std::vector<Tensor<double>> middle, d_middle;
    for (const Tensor<double>& s : parts.start) {
      middle.emplace_back(s.shape());
      d_middle.emplace_back(s.shape());
    }
    layer.forward(input(0, 2), const_views_of(parts.start), views_of(middle), parts.saved);
    layer.forward(input(2, 3), const_views_of(middle), views_of(parts.last), parts.saved);
    Tensor<double> d_output = parts.dy.copy();
    const auto backward = [&](Index first, Index count, const auto& d_last, auto& d_start, Gradients mode) {
      layer.backward(input(first, count),
                     {.d_output = d_output.view().slice(first, count),
                      .d_last = const_views_of(d_last),
                      .d_input = symbols ? TensorView<double>() : parts.dx.view().slice(first, count),
                      .d_start = views_of(d_start),
                      .parameters = mode},
                     parts.saved, parts.scratch);
    };
    backward(2, 3, parts.d_last, d_middle, Gradients::overwrite);
    backward(0, 2, d_middle, parts.d_start, Gradients::add);
    const double bound = tolerance::rounding<double>(15);
    CHECK(relative_error(parts.parameters.gradients(), whole.parameters.gradients()) <= bound);
    if (!symbols) CHECK(relative_error(parts.dx, whole.dx) <= bound);
    for (std::size_t i = 0; i < whole.last.size(); ++i) {
      CHECK(relative_error(parts.last[i], whole.last[i]) <= bound);
      CHECK(relative_error(parts.d_start[i], whole.d_start[i]) <= bound);
    }
  });
}

TEST_CASE("a layer refuses states that are not its own", "[layers][errors]") {
  LayerCase<float> recurrent(layer_called("orthogonal"), 2, 3), stateless(layer_called("linear"), 2, 3);
  recurrent.layer->prepare();
  recurrent.start.emplace_back(Shape{3, layer_outputs});
  CHECK_THAT(error_message<ShapeError>([&] { recurrent.forward(); }), contains("2 initial states"));
  stateless.layer->prepare();
  stateless.start.emplace_back(Shape{3, layer_outputs});
  CHECK_THAT(error_message<ShapeError>([&] { stateless.forward(); }), contains("has 0"));
}

TEST_CASE("the gradient of one last state alone is that with zeros for the others", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    LayerCase<double> c(make, 3, 2, symbols);
    if (c.d_last.size() < 2) return;
    for (std::size_t i = 1; i < c.d_last.size(); ++i) c.d_last[i].resize(c.d_last[i].shape());
    c.forward();
    c.backward();
    const Tensor<double> expected = c.parameters.gradients().copy();
    c.forward();
    for (std::size_t i = 1; i < c.d_last.size(); ++i) c.d_last[i] = Tensor<double>();
    c.backward();
    CHECK(equal(c.parameters.gradients(), expected));
  });
}

TEST_CASE("a gradient of the output that is 0 counts as 0, whatever its memory holds", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    LayerCase<double> c(make, 3, 2, symbols);
    std::fill(c.dy.begin(), c.dy.end(), 0.0);
    c.forward();
    c.backward();
    const Tensor<double> expected = c.parameters.gradients().copy(), expected_dx = c.dx.copy();
    std::vector<Tensor<double>> expected_start;
    for (const Tensor<double>& gradient : c.d_start) expected_start.push_back(gradient.copy());
    std::fill(c.dy.begin(), c.dy.end(), 7.0);
    c.dy_is_zero = true;
    c.forward();
    c.backward();
    CHECK(equal(c.parameters.gradients(), expected));
    CHECK(equal(c.dx, expected_dx));
    for (std::size_t i = 0; i < expected_start.size(); ++i) CHECK(equal(c.d_start[i], expected_start[i]));
  });
}

TEST_CASE("a backward that is not of the last forward is refused before it writes", "[layers][errors]") {
  for (const LayerKind<float>& kind : all_layers<float>(layer_inputs, layer_outputs)) {
    CAPTURE(kind.name);
    const bool symbols = !kind.reads_vectors;
    LayerCase<float> c(kind.make(Device::cpu()), 2, 3, symbols),
        other(kind.make(Device::cpu()), 2, 3, symbols);
    c.layer->prepare();
    const auto refused = [&] {
      CHECK_THAT(error_message<ValueError>([&] { c.backward(); }), contains("without its forward"));
      CHECK(frobenius_norm(c.parameters.gradients()) == 0);
    };
    refused();
    // Another layer's forward is the last.
    c.forward();
    other.layer->prepare();
    other.layer->forward(other.input(), {}, {}, c.saved);
    refused();
    c.saved.clear();
    // Another input.
    c.forward();
    LayerCase<float> longer(kind.make(Device::cpu()), 4, 3, symbols);
    std::swap(c.x, longer.x);
    std::swap(c.symbols, longer.symbols);
    CHECK_THAT(error_message<ValueError>([&] { c.backward(); }), contains("its forward had 2 of 3"));
  }
}

TEST_CASE("a forward that fails leaves the stack as it was", "[layers][errors]") {
  for (const LayerKind<float>& kind : all_layers<float>(layer_inputs, layer_outputs)) {
    CAPTURE(kind.name);
    LayerCase<float> c(kind.make(Device::cpu()), 2, 3, !kind.reads_vectors);
    CHECK_THAT(error_message<ValueError>([&] { c.layer->forward(c.input(), {}, {}, c.saved); }),
               contains("before prepare"));
    c.forward();
    const Index size = c.saved.size();
    c.set_lengths({0, 1, 3});
    CHECK_THROWS_AS(c.layer->forward(c.input(), {}, {}, c.saved), ValueError);
    CHECK(c.saved.size() == size);
    c.lengths = Tensor<std::int32_t>();
    CHECK_NOTHROW(c.backward());
  }
}

TEST_CASE("a layer refuses arguments of the wrong shape", "[layers][errors]") {
  LayerCase<float> c(layer_called("lstm"), 2, 3);
  c.layer->prepare();
  const Tensor<std::int32_t> three(Shape{2, 3, 2});
  CHECK_THAT(error_message<ShapeError>([&] { c.layer->forward({.symbols = three}, {}, {}, c.saved); }),
             contains("symbols") && contains("[2, 3, 2]"));
  const Tensor<float> wide(Shape{2, 3, layer_inputs + 1});
  CHECK_THAT(error_message<ShapeError>([&] { c.layer->forward({.vectors = wide}, {}, {}, c.saved); }),
             contains("input has shape [2, 3, 4]"));
  c.start[1].resize({2, layer_outputs});
  CHECK_THAT(error_message<ShapeError>([&] { c.forward(); }), contains("initial states has shape [2, 5]"));
  c.start[1].resize({3, layer_outputs});
  c.forward();
  c.dx.resize({2, 3, layer_inputs + 1});
  CHECK_THAT(error_message<ShapeError>([&] { c.backward(); }), contains("d_input"));
  c.dx.resize({2, 3, layer_inputs});
  CHECK_THAT(error_message<ValueError>(
                 [&] { c.layer->backward(c.input(), {.d_output = c.d_output}, c.saved, c.saved); }),
             contains("one stack twice"));
  CHECK_NOTHROW(c.backward());
  LayerCase<float> from_symbols(layer_called("lstm"), 2, 3, true);
  from_symbols.forward();
  from_symbols.dx = Tensor<float>(Shape{2, 3, layer_inputs});
  CHECK_THAT(error_message<ValueError>([&] { from_symbols.backward(); }),
             contains("symbols have no gradient"));
}

}  // namespace orthornn::testing
