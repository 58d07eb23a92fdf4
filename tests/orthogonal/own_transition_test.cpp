// Parametrizations that a program registers are options as those of orthornn are.

#include "orthornn/orthogonal/own_transition.hpp"

#include <initializer_list>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "support/check_says.hpp"
#include "support/layer_case.hpp"
#include "support/own_kinds.hpp"
#include "support/variant_from_json.hpp"

namespace orthornn::testing {
namespace {

/// Its name is that of another kind, or no program registers it.
template <int kind>
struct ImpostorTransition : Turns {
  static constexpr const char* name = kind == 0 ? "cwy" : kind == 1 ? "turns" : "stranger";
};

/// Its field would overwrite the kind in a file.
struct OverwritesKind : Turns {
  static constexpr const char* name = "overwrites-kind";
  static void fields(auto&& visit) { visit("kind", &OverwritesKind::largest, domain::positive, "An angle"); }
};

/// Its name could not be read again.
struct OddName : Turns {
  static constexpr const char* name = "odd name";
};

/// It makes nothing.
struct Nothing : Turns {
  static constexpr const char* name = "nothing";
  template <class T>
  TransitionParts<T> parts(Index, const Execution&) const {
    return {};
  }
};

}  // namespace

TEST_CASE("an own parametrization that no file could hold, or without parts, is refused",
          "[orthogonal][own]") {
  check_says<ValueError>([] { register_transition<OverwritesKind>(); }, {"'overwrites-kind'", "key 'kind'"});
  check_says<ValueError>([] { register_transition<OddName>(); }, {"key 'odd name'"});
  register_transition<Nothing>();
  check_says<ValueError>([] { Transition<float>(Nothing{}, 4); }, {"'nothing'", "no parametrization"});
}

TEST_CASE("an own parametrization goes through JSON and has a name of its own", "[orthogonal][own]") {
  register_own_kinds();
  const TransitionOptions options = Turns{.largest = 0.5};
  CHECK(json_value(options).dump() == R"({"kind":"turns","largest":0.5})");
  const TransitionOptions read = variant_from_json<TransitionOptions>(json_value(options).dump());
  CHECK(std::get<OwnTransition>(read).get_if<Turns>()->largest == 0.5);
  CHECK(name_of(parse<TransitionOptions>("turns")) == "turns");
  check_says<ValueError>([] { variant_from_json<TransitionOptions>(R"({"kind": "turns"})"); },
                         {"'largest' is missing"});
  check_says<ValueError>([] { variant_from_json<TransitionOptions>(R"({"kind": "turns", "largest": 0})"); },
                         {"'largest' is 0"});
  check_says<UnknownKind>([] { variant_from_json<TransitionOptions>(R"({"kind": "stranger"})"); },
                          {"stranger", "cwy", "turns"});
  check_says<ValueError>([] { register_transition<ImpostorTransition<0>>(); },
                         {"'cwy'", "another transition"});
  check_says<ValueError>([] { register_transition<ImpostorTransition<1>>(); },
                         {"'turns'", "another transition"});
  CHECK_NOTHROW(register_transition<Turns>());
  check_says<ValueError>([] { Transition<float>(ImpostorTransition<2>{}, 4); },
                         {"'stranger'", "not registered", "register_transition"});
}

TEST_CASE("an own parametrization says what its parameters are", "[orthogonal][own]") {
  register_own_kinds();
  const Parameter parameter = parameter_of(Turns{}, 6);
  CHECK(parameter.name == "angles");
  CHECK(parameter.shape == Shape{3});
  CHECK(reflections_of(TransitionOptions(Turns{})) == nullptr);
  check_says<ValueError>([] { parameter_of(Turns{}, 5); }, {"odd hidden size"});
  check_says<ValueError>([] { parameter_of(Turns{}, 0); }, {"hidden size 0"});
  check_says<ValueError>([] { parameter_of(Turns{.largest = -1}, 6); }, {"turns", "largest is -1"});
  // A layer has the checks as well, before it takes memory.
  ParameterSet<float> set;
  check_says<ValueError>(
      [&] { make_layer(set, "cell", OrthogonalCell{.hidden_size = 5, .transition = Turns{}}, 2); },
      {"odd hidden size"});
  CHECK(set.list().empty());
}

TEMPLATE_TEST_CASE("Q of an own parametrization is applied as that of others", "[orthogonal][own]", float,
                   double) {
  using T = TestType;
  register_own_kinds();
  Transition<T> transition(Turns{}, 6);
  Tensor<T> angles(transition.parameter_shape());
  transition.initialize(1, angles);
  transition.prepare(angles);
  const Tensor<T> q = transition.materialize();
  CHECK(orthogonality_error(q) <= tolerance::rounding<T>(6));
  CHECK(q(1, 0) == std::sin(angles(0)));
  Tensor<T> h({1, 6});
  h(0, 0) = 1;
  transition.apply(h);
  CHECK(relative_error(TensorView<const T>(h.data(), {2}), Tensor<T>(Shape{2})) > 0);
  CHECK(h(0, 1) == q(1, 0));
  transition.apply_transpose(h);
  CHECK(std::abs(h(0, 0) - 1) <= tolerance::rounding<T>(6));
  check_says<ValueError>([&] { transition.parameters_of(q, angles); }, {"finds no parameters"});
}

TEST_CASE("gradients of an own parametrization are those of differences", "[orthogonal][own][gradient]") {
  register_own_kinds();
  Transition<double> transition(Turns{}, 6);
  Tensor<double> angles = normal_tensor<double>(transition.parameter_shape(), 1);
  const Tensor<double> d_q = normal_tensor<double>({6, 6}, 2);
  Tensor<double> gradient(angles.shape());
  transition.prepare(angles);
  transition.backward(d_q, gradient);
  const Tensor<double> expected = finite_differences(angles, [&] {
    transition.prepare(angles);
    return inner_product(transition.materialize(), d_q);
  });
  CHECK(relative_error(gradient, expected) <= tolerance::finite_difference);
  // Through time.
  const OrthogonalCell cell{
      .hidden_size = 4, .transition = Turns{}, .activation = Activation::tanh, .learn_initial_state = true};
  for (const bool symbols : {false, true}) {
    LayerCase<double> c([&](ParameterSet<double>& set) { return make_layer<double>(set, "layer", cell, 3); },
                        4, 3, symbols);
    c.set_lengths({4, 0, 2});
    check_gradients(c);
    CHECK(c.layer->describe(4, 3).kind == "turns");
  }
}

}  // namespace orthornn::testing
