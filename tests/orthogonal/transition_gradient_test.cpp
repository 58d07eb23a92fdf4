// Every transition's backward against central differences in double, and the gradient's own properties.

#include <initializer_list>

#include "linalg/gemm.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

/// <d_q, Q(parameters)>
double loss(Transition<double>& transition, const Tensor<double>& parameters, const Tensor<double>& d_q) {
  transition.prepare(parameters);
  return inner_product(transition.materialize(), d_q);
}

void check_backward(const NamedTransition& named, Index n, double generator_norm = 2) {
  CAPTURE(named.name, n, generator_norm);
  const auto transition = make_transition<double>(named.options, n);
  Tensor<double> parameters = some_parameters(*transition, 1, generator_norm);
  const Tensor<double> d_q = normal_tensor<double>({n, n}, 2);
  const Tensor<double> expected =
      finite_differences(parameters, [&] { return loss(*transition, parameters, d_q); });
  Tensor<double> gradient(parameters.shape());
  transition->prepare(parameters);
  transition->backward(d_q, gradient);
  if (frobenius_norm(expected) < 1e-6) {
    // One orthogonal number is +-1 whatever the parameters.
    CHECK(frobenius_norm(gradient) < 1e-12);
  } else {
    CHECK(relative_error(gradient, expected) <= tolerance::finite_difference);
  }
}

TEST_CASE("backward of every transition agrees with central differences", "[orthogonal][gradient]") {
  const auto [n, l] =
      GENERATE(std::pair<Index, Index>{1, 1}, std::pair<Index, Index>{2, 1}, std::pair<Index, Index>{2, 2},
               std::pair<Index, Index>{7, 1}, std::pair<Index, Index>{7, 4}, std::pair<Index, Index>{7, 7},
               std::pair<Index, Index>{12, 5});
  for (const NamedTransition& named : all_transitions(n, l)) check_backward(named, n);
}

TEST_CASE("backward of skew parametrizations agrees with central differences for small and large generators",
          "[orthogonal][gradient]") {
  const double norm = GENERATE(0.0, 0.3, 20.0);
  check_backward({"expm", MatrixExponential{}}, 6, norm);
  check_backward({"cayley", ScaledCayley{}}, 6, norm);
  check_backward({"cayley with signs", ScaledCayley{.negative_signs = 2}}, 6, norm);
}

TEST_CASE("backward agrees with differences along directions at large sizes", "[orthogonal][gradient]") {
  const auto [n, l] = GENERATE(std::pair<Index, Index>{48, 48}, std::pair<Index, Index>{48, 1},
                               std::pair<Index, Index>{190, 70}, std::pair<Index, Index>{193, 193});
  for (const NamedTransition& named : all_transitions(n, l)) {
    CAPTURE(named.name, n, l);
    const auto transition = make_transition<double>(named.options, n);
    Tensor<double> parameters = some_parameters(*transition, 3);
    const Tensor<double> d_q = normal_tensor<double>({n, n}, 4);
    Tensor<double> gradient(parameters.shape());
    transition->prepare(parameters);
    transition->backward(d_q, gradient);
    for (const std::uint64_t seed : {5, 6}) {
      // Half of the direction along the gradient, for a random one alone is nearly orthogonal to it.
      Tensor<double> direction = normal_tensor<double>(parameters.shape(), seed);
      const double scale = frobenius_norm(direction) / frobenius_norm(gradient);
      for (Index i = 0; i < direction.size(); ++i) direction.data()[i] += scale * gradient.data()[i];
      const double length = 1 / frobenius_norm(direction);
      for (double& x : direction) x *= length;
      const double found = inner_product(gradient, direction);
      const double expected =
          directional_difference(parameters, direction, [&] { return loss(*transition, parameters, d_q); });
      CHECK(std::abs(found - expected) <= tolerance::finite_difference * std::abs(expected));
    }
  }
}

/// What a rollout hands over: columns g and h, and the coefficients that the two products left behind.
template <class T>
struct RolloutColumns {
  Tensor<T> g, h, z, y;
  RolloutColumns(const Transition<T>& transition, Index count)
      : g(normal_tensor<T>({count, transition.hidden_size()}, 7)),
        h(normal_tensor<T>({count, transition.hidden_size()}, 8)),
        z(Shape{count, transition.coefficient_count()}),
        y(Shape{count, transition.coefficient_count()}) {
    Tensor<T> ignored(h.shape());
    transition.multiply_add(columns_of(std::as_const(h)), columns_of(ignored), coefficients(z));
    transition.multiply_add_transposed(columns_of(std::as_const(g)), columns_of(ignored), coefficients(y));
  }
  static MatrixView<T> coefficients(Tensor<T>& c) {
    return {c.data(), c.shape()[1], c.shape()[0], c.shape()[1]};
  }
};

TEST_CASE("backward of a rollout is backward of dQ = G H^T", "[orthogonal][gradient]") {
  const auto [n, l] = GENERATE(std::pair<Index, Index>{1, 1}, std::pair<Index, Index>{7, 3},
                               std::pair<Index, Index>{48, 48}, std::pair<Index, Index>{193, 60});
  const Index count = GENERATE(1, 37);
  for (const NamedTransition& named : all_transitions(n, l)) {
    CAPTURE(named.name, n, l, count);
    const auto transition = make_transition<double>(named.options, n);
    const Tensor<double> parameters = some_parameters(*transition, 9);
    transition->prepare(parameters);
    RolloutColumns<double> c(*transition, count);
    Tensor<double> d_q({n, n});
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) {
        for (Index k = 0; k < count; ++k) d_q(i, j) += c.g(k, i) * c.h(k, j);
      }
    }
    Tensor<double> expected(parameters.shape()), found(parameters.shape());
    transition->backward(d_q, expected);
    transition->backward_of_rollout(columns_of(std::as_const(c.g)), columns_of(std::as_const(c.h)),
                                    c.coefficients(c.z), c.coefficients(c.y), found);
    if (n == 1 && !is_its_own_parameter(named.options)) {
      // A gradient of zero has no relative error.
      CHECK(frobenius_norm(found) <= 1e-13 * frobenius_norm(d_q));
      CHECK(frobenius_norm(expected) <= 1e-13 * frobenius_norm(d_q));
    } else {
      CHECK(relative_error(found, expected) <= 10 * tolerance::rounding<double>(n));
    }
  }
}

TEMPLATE_TEST_CASE("the gradient of a reflection vector is orthogonal to it", "[orthogonal][gradient]", float,
                   double) {
  const auto [n, l] = GENERATE(std::pair<Index, Index>{1, 1}, std::pair<Index, Index>{7, 7},
                               std::pair<Index, Index>{48, 20}, std::pair<Index, Index>{193, 193});
  for (const NamedTransition& named : reflection_transitions(l)) {
    CAPTURE(named.name, n, l);
    const Tensor<TestType> v = normal_tensor<TestType>({l, n}, 10);
    const auto transition = prepare<TestType>(named.options, v);
    const Tensor<TestType> d_q = normal_tensor<TestType>({n, n}, 11);
    Tensor<TestType> dv(v.shape());
    transition->backward(d_q, dv);
    // Against |dQ| where there is nothing but v's own direction.
    const double bound = tolerance::along_the_vector<TestType>(n);
    for (Index i = 0; i < l; ++i) {
      const double size = std::max(frobenius_norm(dv.view()[i]), n == 1 ? frobenius_norm(d_q) : 0.0);
      REQUIRE(std::abs(inner_product(v.view()[i], dv.view()[i])) <=
              bound * frobenius_norm(v.view()[i]) * size);
    }
  }
}

TEST_CASE("the gradient of skew parameters is skew-symmetric", "[orthogonal][gradient]") {
  const Index n = GENERATE(1, 7, 48);
  const TransitionOptions options =
      GENERATE(TransitionOptions(ScaledCayley{.negative_signs = 1}), TransitionOptions(MatrixExponential{}));
  const auto transition = make_transition<double>(options, n);
  const Tensor<double> x = some_parameters(*transition, 12);
  transition->prepare(x);
  Tensor<double> dx(x.shape());
  transition->backward(normal_tensor<double>({n, n}, 13), dx);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) REQUIRE(dx(i, j) == -dx(j, i));
  }
}

TEST_CASE("the gradient of long vectors is the shorter for it", "[orthogonal][gradient]") {
  const double scale = GENERATE(1e-3, 1e3);
  for (const NamedTransition& named : reflection_transitions(5)) {
    CAPTURE(named.name, scale);
    Tensor<double> v = normal_tensor<double>({5, 9}, 14);
    const Tensor<double> d_q = normal_tensor<double>({9, 9}, 15);
    Tensor<double> before(v.shape()), after(v.shape());
    prepare<double>(named.options, v)->backward(d_q, before);
    for (double& x : v) x *= scale;
    prepare<double>(named.options, v)->backward(d_q, after);
    for (double& x : after) x *= scale;
    CHECK(relative_error(after, before) <= tolerance::rounding<double>(9));
  }
}

TEST_CASE("backward overwrites, can be repeated and changes nothing else", "[orthogonal][gradient]") {
  const Index n = 11;
  for (const NamedTransition& named : all_transitions(n, 6)) {
    CAPTURE(named.name);
    const auto transition = make_transition<double>(named.options, n);
    const Tensor<double> parameters = some_parameters(*transition, 16);
    transition->prepare(parameters);
    const Tensor<double> q = transition->materialize();
    const Tensor<double> d_q = normal_tensor<double>({n, n}, 17);
    Tensor<double> first(parameters.shape()), second(parameters.shape());
    for (double& x : second) x = NAN;
    transition->backward(d_q, first);
    transition->backward(d_q, second);
    CHECK(equal(first, second));
    CHECK(equal(transition->materialize(), q));
  }
}

TEST_CASE("the float gradient is the double one, rounded", "[orthogonal][gradient]") {
  const auto [n, l] = GENERATE(std::pair<Index, Index>{7, 7}, std::pair<Index, Index>{48, 30},
                               std::pair<Index, Index>{193, 20});
  for (const NamedTransition& named : all_transitions(n, l)) {
    CAPTURE(named.name, n, l);
    const auto in_double = make_transition<double>(named.options, n);
    const auto in_float = make_transition<float>(named.options, n);
    const Tensor<float> parameters = some_parameters(*in_float, 18);
    const Tensor<float> d_q = normal_tensor<float>({n, n}, 19);
    Tensor<float> found(parameters.shape());
    Tensor<double> expected(parameters.shape());
    in_float->prepare(parameters);
    in_float->backward(d_q, found);
    in_double->prepare(cast<double>(parameters));
    in_double->backward(cast<double>(d_q), expected);
    CHECK(relative_error(found, expected) <= tolerance::rounding<float>(n));
  }
}

}  // namespace
}  // namespace orthornn::testing
