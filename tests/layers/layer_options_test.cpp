// Layers as plain values: names, JSON, sizes, and what is refused.

#include "orthornn/layers/layer_options.hpp"

#include <algorithm>
#include <initializer_list>

#include "core/fields_json.hpp"
#include "layers/random_layers.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/layers/recurrent_layer.hpp"
#include "support/check_says.hpp"
#include "support/layer_case.hpp"
#include "support/variant_from_json.hpp"

namespace orthornn::testing {
namespace {

LayerOptions nested(int depth) {
  LayerOptions options = Lstm{4};
  for (int i = 1; i < depth; ++i) options = Residual{{options}};
  return options;
}

}  // namespace

TEST_CASE("layers of every kind go through JSON", "[layers][fields]") {
  const LayerOptions options = Bidirectional{
      {Lstm{7}, Residual{{RmsNorm{.epsilon = 0.5}, Residual{{Gru{7}, Dropout{.rate = 0.25}}}, Linear{7}}},
       OrthogonalCell{.hidden_size = 3, .transition = HouseholderProduct{.reflections = 2}}}};
  const std::string text = json_value(options).dump();
  CHECK(json_value(variant_from_json<LayerOptions>(text)).dump() == text);
  CHECK(json_value(options)["layers"][1]["layers"][1]["layers"][1] ==
        Json{{"kind", "dropout"}, {"rate", 0.25}});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string drawn = json_value(random_layer(seed, 4)).dump();
    CAPTURE(drawn);
    CHECK(json_value(variant_from_json<LayerOptions>(drawn)).dump() == drawn);
  }
}

TEST_CASE("the kinds of layers that files name keep their names", "[layers][fields]") {
  const std::vector<std::string> names = names_of<LayerOptions>();
  for (const char* name :
       {"orthogonal", "lstm", "gru", "convneru", "convlstm", "linear", "orthogonal_linear", "orthogonal_conv",
        "rms_norm", "positions", "dropout", "residual", "bidirectional"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  for (const std::string& name : names) CHECK(name_of(parse<LayerOptions>(name)) == name);
}

TEST_CASE("what is left out in layers within layers has its default", "[layers][fields]") {
  const char* text = R"({"kind": "residual", "layers": [{"kind": "lstm"}, {"kind": "rms_norm"}]})";
  CHECK_THAT(error_message<ValueError>([&] { variant_from_json<LayerOptions>(text); }),
             contains("'hidden_size' is missing"));
  const LayerOptions options = variant_from_json<LayerOptions>(text, MissingField::has_its_default);
  const auto& layers = std::get<Residual>(options).layers;
  REQUIRE(layers.size() == 2);
  CHECK(std::get<Lstm>(layers[0]).hidden_size == Lstm{}.hidden_size);
  CHECK(std::get<RmsNorm>(layers[1]).epsilon == RmsNorm{}.epsilon);
}

TEST_CASE("JSON that is no layer is refused", "[layers][fields][errors]") {
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "lstn"})"); },
                         {"'kind'", "lstn", "rms_norm", "bidirectional"});
  check_says<ValueError>(
      [] { variant_from_json<LayerOptions>(R"({"kind": "residual", "layers": [{"kind": "x"}]})"); },
      {"'kind'", "\"x\"", "lstm"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "residual"})"); },
                         {"'layers' is missing"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "residual", "layers": 3})"); },
                         {"'layers'", "an array"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "residual", "layers": [3]})"); },
                         {"'kind'", "object"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "lstm", "hidden_size": 0})"); },
                         {"hidden_size", "0", "at least 1"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "linear", "outputs": 1.5})"); },
                         {"outputs", "whole number"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "dropout", "rate": 1})"); },
                         {"rate", "[0, 1)"});
  check_says<ValueError>([] { variant_from_json<LayerOptions>(R"({"kind": "rms_norm", "epsilon": 0})"); },
                         {"epsilon", "above 0"});
}

TEST_CASE("the size of a layer follows from its options and its input", "[layers]") {
  CHECK(output_size_of(LayerOptions(OrthogonalCell{.hidden_size = 5}), 3) == 5);
  CHECK(output_size_of(LayerOptions(Lstm{5}), 3) == 5);
  CHECK(output_size_of(LayerOptions(Gru{5}), 3) == 5);
  CHECK(output_size_of(LayerOptions(Linear{5}), 3) == 5);
  CHECK(output_size_of(LayerOptions(OrthogonalLinear{.outputs = 5}), 3) == 5);
  CHECK(output_size_of(LayerOptions(OrthogonalLinear{}), 3) == 3);
  CHECK(output_size_of(LayerOptions(OrthogonalConv{.channels = 5}), 64) == 320);
  CHECK(output_size_of(LayerOptions(OrthogonalConv{}), 128) == 128);
  CHECK(output_size_of(LayerOptions(RmsNorm{}), 3) == 3);
  CHECK(output_size_of(LayerOptions(Dropout{}), 3) == 3);
  CHECK(output_size_of(LayerOptions(Residual{{Lstm{3}}}), 3) == 3);
  CHECK(output_size_of(LayerOptions(Bidirectional{{Lstm{5}, Linear{4}}}), 3) == 8);
  CHECK(output_size_of(LayerOptions(Bidirectional{{RmsNorm{}}}), 3) == 6);
  CHECK_THROWS_AS(output_size_of(LayerOptions(Bidirectional{{RmsNorm{}}}), Index{1} << 62), ShapeError);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const LayerOptions options = random_layer(seed, 4);
    ParameterSet<float> parameters, layout;
    CAPTURE(json_value(options).dump());
    const auto layer = make_layer<float>(parameters, "layer", options, 4);
    CHECK(layer->output_size() == output_size_of(options, 4));
    // What is added without making layers is the same.
    add_layer_parameters(layout, "layer", options, 4);
    REQUIRE(layout.list().size() == parameters.list().size());
    for (std::size_t i = 0; i < layout.list().size(); ++i) {
      CHECK(layout.list()[i].name == parameters.list()[i].name);
      CHECK(layout.list()[i].shape == parameters.list()[i].shape);
    }
  }
}

TEST_CASE("reflections are those of an orthogonal cell alone", "[layers]") {
  const LayerOptions cell = OrthogonalCell{.hidden_size = 5, .transition = Cwy{.reflections = 3}};
  REQUIRE(reflections_of(cell) != nullptr);
  CHECK(*reflections_of(cell) == 3);
  CHECK(reflections_of(LayerOptions(OrthogonalCell{.transition = ScaledCayley{}})) == nullptr);
  CHECK(reflections_of(LayerOptions(Lstm{})) == nullptr);
  CHECK(reflections_of(LayerOptions(Residual{{cell}})) == nullptr);
}

TEST_CASE("layers that cannot be are refused, made or only added", "[layers][errors]") {
  const auto refused = [](const LayerOptions& options, std::initializer_list<std::string> words) {
    ParameterSet<float> parameters;
    check_says<ValueError>([&] { add_layer_parameters(parameters, "layer", options, 4); }, words);
    ParameterSet<float> of_layer;
    check_says<ValueError>([&] { make_layer(of_layer, "layer", options, 4); }, words);
    CHECK(of_layer.list().empty());
  };
  refused(Residual{{Lstm{5}}}, {"read 4", "return 5"});
  refused(Bidirectional{{Gru{4}, Residual{{Lstm{5}}}}}, {"read 4", "return 5"});
  refused(Residual{}, {"a residual layer of no layers"});
  refused(Residual{{Bidirectional{}}}, {"a bidirectional layer of no layers"});
  refused(Residual{{Lstm{0}}}, {"lstm", "hidden size 0"});
  refused(Linear{0}, {"0 outputs"});
  refused(Dropout{.rate = 1}, {"dropout", "rate"});
  refused(nested(deepest_nesting + 1), {"nested 9 deep", "at most 8"});
  ParameterSet<float> parameters;
  CHECK_NOTHROW(make_layer(parameters, "layer", nested(deepest_nesting), 4));
  // What may be made can be read again.
  CHECK_NOTHROW(variant_from_json<LayerOptions>(json_value(nested(deepest_nesting)).dump()));
}

TEST_CASE("gradients of random layers are those of finite differences", "[layers][gradient][long]") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const LayerOptions options = random_layer(seed, 3);
    CAPTURE(seed, json_value(options).dump());
    LayerCase<double> c(
        [&](ParameterSet<double>& set) { return make_layer<double>(set, "layer", options, 3); }, 3, 3, false,
        Device::cpu(), 0.4, seed);
    if (seed % 2 == 0) c.set_lengths({3, 0, 2});
    c.set_noise(seed);
    check_gradients(c);
  }
}

TEST_CASE("one step of random causal layers at a time gives the bits of the whole", "[layers]") {
  int causal = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const LayerOptions options = random_layer(seed, 3);
    CAPTURE(seed, json_value(options).dump());
    LayerCase<float> c([&](ParameterSet<float>& set) { return make_layer<float>(set, "layer", options, 3); },
                       4, 2);
    if (!c.layer->is_causal()) continue;
    ++causal;
    check_generation(c);
  }
  CHECK(causal > 5);
}

TEST_CASE("recurrent layers keep their short list of kinds", "[layers]") {
  CHECK(names_of<RecurrentOptions>() == std::vector<std::string>{"orthogonal", "lstm", "gru"});
  ParameterSet<float> parameters;
  CHECK(make_layer(parameters, "cell", layer_options(RecurrentOptions(Gru{6})), 2)->output_size() == 6);
}

}  // namespace orthornn::testing
