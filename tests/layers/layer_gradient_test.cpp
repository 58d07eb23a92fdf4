// Every layer against central differences in double, twice before its backwards, and one step at a time.

#include "layers/all_layers.hpp"
#include "orthornn/core/error.hpp"
#include "support/error_message.hpp"
#include "support/layer_case.hpp"

namespace orthornn::testing {
namespace {

constexpr Index inputs = 3, outputs = 5;

/// Calls what(kind, from_symbols) for everything that a kind reads.
template <class T, class What>
void for_all_kinds(const What& what) {
  for (const LayerKind<T>& kind : all_layers<T>(inputs, outputs)) {
    for (const bool symbols : {false, true}) {
      if (!(symbols ? kind.reads_symbols : kind.reads_vectors)) continue;
      CAPTURE(kind.name, symbols);
      what(kind.make(Device::cpu()), symbols);
    }
  }
}

LayerKind<float>::Add layer_called(const std::string& name) {
  for (const LayerKind<float>& kind : all_layers<float>(inputs, outputs)) {
    if (kind.name == name) return kind.make(Device::cpu());
  }
  throw ValueError("no layer " + name);
}

}  // namespace

TEST_CASE("gradients of every layer are those of finite differences", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    for (const bool with_lengths : {false, true}) {
      CAPTURE(with_lengths);
      LayerCase<double> c(make, 4, 4, symbols);
      if (with_lengths) c.set_lengths({4, 0, 2, 1});
      check_gradients(c);
    }
  });
}

TEST_CASE("a layer may run twice before its backwards", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    LayerCase<double> first(make, 4, 3, symbols), second(make, 6, 2, symbols, Device::cpu(), 0.4, 9);
    check_two_passes(first, second);
  });
}

TEMPLATE_TEST_CASE("one step of a layer at a time gives the bits of the whole", "[layers]", float, double) {
  for_all_kinds<TestType>([](const auto& make, bool symbols) {
    for (const Index batch : {1, 3, 17}) {
      CAPTURE(batch);
      LayerCase<TestType> c(make, 5, batch, symbols);
      check_generation(c);
    }
  });
}

TEST_CASE("a sequence in two parts has the gradients of the whole", "[layers][gradient]") {
  for_all_kinds<double>([](const auto& make, bool symbols) {
    LayerCase<double> whole(make, 5, 3, symbols), parts(make, 5, 3, symbols);
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
  recurrent.start.emplace_back(Shape{3, outputs});
  CHECK_THAT(error_message<ShapeError>([&] { recurrent.forward(); }), contains("2 initial states"));
  stateless.layer->prepare();
  stateless.start.emplace_back(Shape{3, outputs});
  CHECK_THAT(error_message<ShapeError>([&] { stateless.forward(); }), contains("has 0"));
}

TEST_CASE("a backward without its forward is refused", "[layers][errors]") {
  LayerCase<float> c(layer_called("orthogonal"), 2, 3);
  c.layer->prepare();
  CHECK_THROWS_AS(c.backward(), ValueError);
}

}  // namespace orthornn::testing
