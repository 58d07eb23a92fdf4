// Layers that a program registers are options as those of orthornn are: names, JSON, sizes, checks,
// gradients.

#include "orthornn/layers/own_layer.hpp"

#include <initializer_list>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "support/check_says.hpp"
#include "support/layer_case.hpp"
#include "support/own_kinds.hpp"
#include "support/variant_from_json.hpp"

namespace orthornn::testing {
namespace {

const Spread& spread_of(const LayerOptions& options) { return *std::get<OwnLayer>(options).get_if<Spread>(); }

/// No program registers it.
struct Stranger : Spread {
  static constexpr const char* name = "stranger";
};

/// Its name is that of another kind.
template <int kind>
struct ImpostorLayer : Spread {
  static constexpr const char* name = kind == 0 ? "lstm" : "spread";
};

/// Its layer returns another number of entries than its options say.
struct Liar : Spread {
  static constexpr const char* name = "liar";
  Index output_size(Index) const { return 3; }
};

/// It says by `is_causal` and by `reads_ahead` whether it reads later steps.
template <bool causal, bool ahead>
struct Reader : Spread {
  static constexpr const char* name =
      causal ? (ahead ? "ahead_and_causal" : "causal") : (ahead ? "ahead" : "neither");
  static constexpr LayerTraits traits{.reads_ahead = ahead};
  template <class T>
  class Layer final : public Spread::Layer<T> {
   public:
    using Spread::Layer<T>::Layer;
    bool is_causal() const override { return causal; }
  };
};

/// Gradients of a layer of three inputs, made twice: from its options and from their JSON.
void check_own_gradients(const LayerOptions& options, bool symbols) {
  for (const LayerOptions& each : {options, variant_from_json<LayerOptions>(json_value(options).dump())}) {
    const auto make = [&](ParameterSet<double>& set) { return make_layer<double>(set, "layer", each, 3); };
    LayerCase<double> c(make, 4, 3, symbols);
    c.set_lengths({4, 0, 2});
    c.set_noise(7);
    check_gradients(c);
    LayerCase<double> first(make, 4, 3, symbols), second(make, 5, 2, symbols, Device::cpu(), 0.4, 9);
    first.set_noise(7);
    second.set_noise(8);
    check_two_passes(first, second);
  }
}

}  // namespace

TEST_CASE("options of an own layer go through JSON with every field", "[layers][own]") {
  register_own_kinds();
  const Spread changed{.copies = 3,
                       .seed = 18'000'000'000'000'000'000U,
                       .start = 0.25,
                       .negated = true,
                       .sign = Sign::minus,
                       .note = "a text",
                       .limit = 0.5};
  const LayerOptions options = Residual{{changed}};
  const Json json = json_value(options);
  CHECK(json["layers"][0].dump() ==
        R"({"kind":"spread","copies":3,"seed":18000000000000000000,"start":0.25,"negated":true,)"
        R"("sign":"minus","note":"a text","limit":0.5})");
  const LayerOptions read = variant_from_json<LayerOptions>(json.dump());
  CHECK(json_value(read) == json);
  const Spread& found = spread_of(std::get<Residual>(read).layers[0]);
  CHECK(found.sign == Sign::minus);
  CHECK(found.limit == 0.5);
  // What is left out.
  CHECK_FALSE(json_value(LayerOptions(Spread{})).contains("limit"));
  const char* short_text = R"({"kind": "spread", "copies": 5})";
  check_says<ValueError>([&] { variant_from_json<LayerOptions>(short_text); }, {"'seed' is missing"});
  const LayerOptions filled = variant_from_json<LayerOptions>(short_text, MissingField::has_its_default);
  CHECK(spread_of(filled).copies == 5);
  CHECK(spread_of(filled).note == "none");
  CHECK_FALSE(spread_of(filled).limit);
  CHECK(std::get<OwnLayer>(filled).get_if<Traits>() == nullptr);
}

TEST_CASE("fields of an own layer keep to their domains", "[layers][own][errors]") {
  register_own_kinds();
  const auto refused = [](const char* key, const Json& value, std::initializer_list<std::string> words) {
    Json json = json_value(LayerOptions(Spread{}));
    json[key] = value;
    check_says<ValueError>([&] { variant_from_json<LayerOptions>(json.dump()); }, words);
  };
  refused("copies", 0, {"'copies' is 0", "at least 1"});
  refused("copies", 1.5, {"'copies' is 1.5", "a whole number"});
  refused("start", 1, {"'start' is 1", "[0, 1)"});
  refused("limit", 0, {"'limit' is 0", "above 0"});
  refused("negated", 1, {"'negated' is 1", "true or false"});
  refused("sign", "times", {"'sign' is \"times\"", "plus or minus"});
  refused("note", 2, {"'note' is 2", "text"});
  ParameterSet<float> parameters;
  check_says<ValueError>([&] { make_layer(parameters, "layer", Spread{.start = 1.5}, 3); },
                         {"spread: start is 1.5", "[0, 1)"});
  // Rounded to float it is 1.
  check_says<ValueError>([&] { add_layer_parameters(parameters, "layer", Spread{.start = 1 - 1e-9}, 3); },
                         {"spread", "start"});
}

TEST_CASE("an own layer has a name of its own", "[layers][own]") {
  register_own_kinds();
  const std::vector<std::string> names = names_of<LayerOptions>();
  CHECK(std::ranges::count(names, "spread") == 1);
  CHECK(std::ranges::count(names, "lstm") == 1);
  CHECK(name_of(parse<LayerOptions>("spread")) == "spread");
  CHECK(find_name<LayerOptions>("stranger") == std::nullopt);
  check_says<ValueError>([] { parse<LayerOptions>("spred"); }, {"'spred'", "lstm", "spread"});
  check_says<UnknownKind>([] { variant_from_json<LayerOptions>(R"({"kind": "stranger"})"); },
                          {"'kind' is \"stranger\"", "orthogonal", "spread"});
  // Taken by orthornn, and by this program.
  check_says<ValueError>([] { register_layer<ImpostorLayer<0>>(); }, {"'lstm'", "another layer"});
  check_says<ValueError>([] { register_layer<ImpostorLayer<1>>(); }, {"'spread'", "another layer"});
  CHECK_NOTHROW(register_layer<Spread>());
  CHECK(names_of<LayerOptions>() == names);
}

TEST_CASE("a layer that a file could not name is not made", "[layers][own][errors]") {
  register_own_kinds();
  ParameterSet<float> parameters;
  for (const LayerOptions& options :
       {LayerOptions(Stranger{}), LayerOptions(Bidirectional{{Stranger{}}}), LayerOptions(ImpostorLayer<1>{}),
        LayerOptions(Residual{{ImpostorLayer<1>{}}})})
    check_says<ValueError>([&] { make_layer(parameters, "layer", options, 3); },
                           {"not registered", "register_layer"});
  CHECK(parameters.list().empty());
}

TEST_CASE("own layers have sizes, traits and parameters as others have", "[layers][own]") {
  register_own_kinds();
  CHECK(output_size_of(Spread{.copies = 3}, 4) == 12);
  CHECK(output_size_of(Bidirectional{{Spread{.copies = 3}, Linear{5}}}, 4) == 10);
  CHECK(output_size_of(Bidirectional{{Spread{.copies = 3}}}, 4) == 24);
  CHECK(is_recurrence(Traits{}));
  CHECK_FALSE(is_recurrence(Spread{}));
  CHECK(reads_symbols(Traits{}));
  CHECK(reads_symbols(Bidirectional{{Traits{}, Spread{}}}));
  CHECK_FALSE(reads_symbols(Spread{}));
  CHECK_FALSE(draws_noise({Spread{}, Lstm{}}));
  CHECK(draws_noise({Lstm{}, Residual{{Traits{}}}}));
  CHECK(reflections_of(LayerOptions(Spread{})) == nullptr);
  check_says<ValueError>(
      [] {
        parameter_layout<float>(ModelOptions{OneHot{3}, {Spread{}}, EveryStep{2}});
      },
      {"reads vectors"});

  ParameterSet<float> layout, made;
  const LayerOptions options = Bidirectional{{Residual{{Spread{.copies = 1}}}, Lstm{5}}};
  add_layer_parameters(layout, "layer", options, 4);
  CHECK(make_layer(made, "layer", options, 4)->output_size() == 10);
  REQUIRE(layout.list().size() == made.list().size());
  for (std::size_t i = 0; i < made.list().size(); ++i) {
    CHECK(layout.list()[i].name == made.list()[i].name);
    CHECK(layout.list()[i].shape == made.list()[i].shape);
  }
  CHECK(layout.list()[layout.find("layer/backward/0/0/g")].shape == Shape{4});
}

TEST_CASE("own layers within others pass the checks of others", "[layers][own][errors]") {
  register_own_kinds();
  register_layer<Liar>();
  ParameterSet<float> parameters;
  const auto refused = [&](const LayerOptions& options, std::initializer_list<std::string> words) {
    check_says<ValueError>([&] { make_layer(parameters, "layer", options, 4); }, words);
  };
  refused(Residual{{Spread{.copies = 2}}}, {"read 4", "return 8"});
  LayerOptions nested = Spread{.copies = 1};
  for (int depth = 1; depth <= deepest_nesting; ++depth) nested = Residual{{nested}};
  refused(nested, {"nested 9 deep"});
  refused(Bidirectional{std::vector<LayerOptions>(most_layers / 2, Spread{.copies = 1})}, {"1025 layers"});
  refused(Liar{}, {"liar", "returns 8", "say 3"});
}

TEST_CASE("an own layer says in both places whether it reads later steps", "[layers][own][errors]") {
  register_layer<Reader<true, false>>();
  register_layer<Reader<false, true>>();
  register_layer<Reader<true, true>>();
  register_layer<Reader<false, false>>();
  ParameterSet<float> parameters;
  CHECK(make_layer(parameters, "a", Reader<true, false>{}, 4)->is_causal());
  CHECK_FALSE(make_layer(parameters, "b", Reader<false, true>{}, 4)->is_causal());
  check_says<ValueError>([&] { make_layer(parameters, "c", Reader<true, true>{}, 4); },
                         {"ahead_and_causal", "is_causal() of its layer is true", "reads_ahead"});
  check_says<ValueError>(
      [&] { make_layer(parameters, "d", Residual{{Reader<false, false>{{.copies = 1}}}}, 4); },
      {"neither", "is_causal() of its layer is false", "reads_ahead"});
}

TEST_CASE("gradients of own layers, alone and within others, are those of differences",
          "[layers][own][gradient]") {
  register_own_kinds();
  check_own_gradients(Spread{}, false);
  check_own_gradients(Residual{{Gru{3}, Spread{.copies = 1}}}, false);
  check_own_gradients(Bidirectional{{Lstm{2}, Spread{}, Dropout{}}}, true);
}

}  // namespace orthornn::testing
