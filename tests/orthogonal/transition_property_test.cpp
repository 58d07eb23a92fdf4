// What holds for every transition: that its Q is the matrix of the formula, orthogonal, with the determinant
// and the rank that it must have; that all ways to apply it agree; and that bad parameters end in a clear
// error.

#include <Eigen/LU>
#include <Eigen/SVD>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "linalg/eigen_map.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/eigen_matrix.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

constexpr double large_generators = 2 * std::numbers::sqrt2;  // |A|

auto edge_reflection_sizes() {
  return GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{2, 1}, ReflectionSizes{2, 2}, ReflectionSizes{7, 1},
                  ReflectionSizes{7, 4}, ReflectionSizes{7, 7}, ReflectionSizes{48, 1},
                  ReflectionSizes{48, 31}, ReflectionSizes{48, 48}, ReflectionSizes{190, 50},
                  ReflectionSizes{190, 190}, ReflectionSizes{193, 1}, ReflectionSizes{193, 97},
                  ReflectionSizes{193, 193});
}

TEMPLATE_TEST_CASE("all forms are the product of the reflections", "[orthogonal]", float, double) {
  const auto [n, l] = edge_reflection_sizes();
  const Tensor<TestType> v = normal_tensor<TestType>({l, n}, 1);
  const Tensor<double> expected = product_of_reflections(v);
  for (const NamedTransition& named : reflection_transitions(l)) {
    CAPTURE(named.name, n, l);
    CHECK(relative_error(prepare<TestType>(named.options, v)->materialize(), expected) <=
          tolerance::rounding<TestType>(n));
  }
}

TEST_CASE("the Cayley transform and the exponential are those of the formulas", "[orthogonal]") {
  const Index n = GENERATE(1, 2, 7, 48);
  const Tensor<double> x = normal_tensor<double>({n, n}, 2, 1 / std::sqrt(static_cast<double>(n)));
  const Eigen::MatrixXd a = matrix_of(x) - matrix_of(x).transpose();
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(n, n);

  const Index negative = n / 2;
  Eigen::MatrixXd cayley = (identity + a).lu().solve(identity - a);
  cayley.leftCols(negative) *= -1;
  const auto found = prepare<double>(ScaledCayley{.negative_signs = negative}, x)->materialize();
  CHECK((matrix_of(found) - cayley).norm() <= tolerance::rounding<double>(n) * cayley.norm());

  // The series itself: |A| is about 3, so 60 terms are plenty.
  Eigen::MatrixXd sum = identity, term = identity;
  for (int i = 1; i <= 60; ++i) {
    term = term * a / i;
    sum += term;
  }
  const auto exponential = prepare<double>(MatrixExponential{}, x)->materialize();
  // Terms as large as e^3 = 20 cancel.
  CHECK((matrix_of(exponential) - sum).norm() <= 20 * tolerance::rounding<double>(n) * sum.norm());
}

TEMPLATE_TEST_CASE("apply, apply_transpose, materialize and multiply_add agree", "[orthogonal][long]", float,
                   double) {
  const auto [n, l] = edge_reflection_sizes();
  const Index count = GENERATE(1, 5, 33);
  for (const NamedTransition& named : all_transitions(n, l)) {
    CAPTURE(named.name, n, l, count);
    const auto transition = make_transition<TestType>(named.options, n);
    const Tensor<TestType> parameters = some_parameters(*transition, 3, large_generators);
    transition->prepare(parameters);
    const Tensor<double> q = cast<double>(transition->materialize());
    const Tensor<TestType> h = normal_tensor<TestType>({count, n}, 4);
    Tensor<double> expected({count, n}), expected_transposed({count, n});
    const Eigen::MatrixXd columns = eigen(columns_of(h)).template cast<double>();
    eigen(columns_of(expected)) = matrix_of(q) * columns;
    eigen(columns_of(expected_transposed)) = matrix_of(q).transpose() * columns;
    // A free matrix may enlarge its argument, but not beyond its norm.
    const double bound = 4 * tolerance::rounding<TestType>(n);

    Tensor<TestType> x = h.copy();
    transition->apply(x);
    CHECK(relative_error(x, expected) <= bound);
    x = h.copy();
    transition->apply_transpose(x);
    CHECK(relative_error(x, expected_transposed) <= bound);

    // a += Q h, whatever the coefficients held before.
    const Index coefficients = transition->coefficient_count();
    Tensor<TestType> c({count, coefficients});
    for (TestType& value : c) value = std::numeric_limits<TestType>::quiet_NaN();
    const MatrixView<TestType> c_columns{c.data(), coefficients, count, coefficients};
    const Tensor<TestType> a = normal_tensor<TestType>({count, n}, 5);
    for (Index i = 0; i < a.size(); ++i) {
      expected.data()[i] += static_cast<double>(a.data()[i]);
      expected_transposed.data()[i] += static_cast<double>(a.data()[i]);
    }
    x = a.copy();
    transition->multiply_add(columns_of(h), columns_of(x), c_columns);
    CHECK(relative_error(x, expected) <= bound);
    x = a.copy();
    transition->multiply_add_transposed(columns_of(h), columns_of(x), c_columns);
    CHECK(relative_error(x, expected_transposed) <= bound);
  }
}

TEMPLATE_TEST_CASE("Q is orthogonal and keeps norms", "[orthogonal]", float, double) {
  const auto [n, l] = edge_reflection_sizes();
  for (const NamedTransition& named : all_transitions(n, l)) {
    if (named.name == "free") continue;
    CAPTURE(named.name, n, l);
    const auto transition = make_transition<TestType>(named.options, n);
    transition->prepare(some_parameters(*transition, 6, large_generators));
    CHECK(orthogonality_error(transition->materialize()) <= tolerance::rounding<TestType>(n));
    Tensor<TestType> h = normal_tensor<TestType>({n}, 7);
    const double before = frobenius_norm(h);
    transition->apply(h);
    CHECK(std::abs(frobenius_norm(h) / before - 1) <= tolerance::rounding<TestType>(n));
  }
}

TEST_CASE("L reflections have determinant (-1)^L and differ from I by rank L at most", "[orthogonal]") {
  const auto [n, l] = GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{2, 2}, ReflectionSizes{7, 1},
                               ReflectionSizes{7, 4}, ReflectionSizes{7, 7}, ReflectionSizes{48, 31});
  for (const NamedTransition& named : reflection_transitions(l)) {
    CAPTURE(named.name, n, l);
    const auto q = prepare<double>(named.options, normal_tensor<double>({l, n}, 8))->materialize();
    CHECK(std::abs(matrix_of(q).determinant() - (l % 2 == 0 ? 1 : -1)) <= tolerance::rounding<double>(n * n));
    const Eigen::VectorXd values =
        Eigen::JacobiSVD<Eigen::MatrixXd>(Eigen::MatrixXd::Identity(n, n) - matrix_of(q)).singularValues();
    // Normal vectors are independent, so the rank is L itself.
    CHECK(values(l - 1) > 1e-6);
    for (Index i = l; i < n; ++i) CHECK(values(i) <= tolerance::rounding<double>(n));
  }
}

TEST_CASE("the determinant of a Cayley matrix is that of its signs, of an exponential 1", "[orthogonal]") {
  const Index n = GENERATE(1, 6, 7);
  const Tensor<double> x = normal_tensor<double>({n, n}, 9);
  for (Index negative = 0; negative <= n; ++negative) {
    const auto q = prepare<double>(ScaledCayley{.negative_signs = negative}, x)->materialize();
    CHECK(std::abs(matrix_of(q).determinant() - (negative % 2 == 0 ? 1 : -1)) <= 1e-12);
  }
  CHECK(std::abs(matrix_of(prepare<double>(MatrixExponential{}, x)->materialize()).determinant() - 1) <=
        1e-12);
}

TEMPLATE_TEST_CASE("Q(c V) = Q(V), even at the ends of the exponent's range", "[orthogonal]", float, double) {
  using T = TestType;
  const bool is_float = std::is_same_v<T, float>;
  // The squares of the last ones, of a vector of 9, are far outside the range.
  const double scale = GENERATE_COPY(-1.0, 2.0, 0.37, is_float ? 1e-30 : 1e-300, is_float ? 1e30 : 1e300,
                                     is_float ? 1e-37 : 1e-307, is_float ? 1e37 : 1e307);
  for (const NamedTransition& named : reflection_transitions(6)) {
    CAPTURE(named.name, scale);
    Tensor<T> v = normal_tensor<T>({6, 9}, 10);
    const Tensor<T> expected = prepare<T>(named.options, v)->materialize();
    for (T& x : v) x = static_cast<T>(static_cast<double>(x) * scale);
    CHECK(relative_error(prepare<T>(named.options, v)->materialize(), expected) <= tolerance::rounding<T>(9));
  }
}

TEST_CASE("vectors of very different lengths and entries do no harm", "[orthogonal]") {
  Tensor<float> v = normal_tensor<float>({4, 6}, 11);
  for (Index j = 0; j < 6; ++j) {
    v(0, j) *= 1e-30f;
    v(1, j) *= 1e30f;
  }
  v(2, 3) = 1e25f;  // next to it the others vanish
  const Tensor<double> expected = product_of_reflections(v);
  for (const NamedTransition& named : reflection_transitions(4)) {
    CAPTURE(named.name);
    CHECK(relative_error(prepare<float>(named.options, v)->materialize(), expected) <=
          tolerance::rounding<float>(6));
  }
}

TEST_CASE("the float error of orthogonality stays within N eps for random vectors", "[orthogonal]") {
  const Index n = GENERATE(64, 512);
  const double unit = static_cast<double>(n) * tolerance::epsilon<float>;
  const Tensor<float> v = normal_tensor<float>({n, n}, 12);
  for (const NamedTransition& named : reflection_transitions(n)) {
    CAPTURE(named.name, n);
    const double error =
        orthogonality_error_in_1_norm(prepare<float>(named.options, v)->materialize()) / unit;
    CHECK(error <= tolerance::orthogonality_random);
  }
}

TEST_CASE("nearly parallel vectors cost CWY some digits and a product of reflections none", "[orthogonal]") {
  const Index n = GENERATE(64, 512);
  const double unit = static_cast<double>(n) * tolerance::epsilon<float>;
  const Tensor<float> v = nearly_parallel_vectors<float>(n, n, 0.01, 13);
  for (const NamedTransition& named : reflection_transitions(n)) {
    CAPTURE(named.name, n);
    const double error =
        orthogonality_error_in_1_norm(prepare<float>(named.options, v)->materialize()) / unit;
    CHECK(error <= (std::holds_alternative<Cwy>(named.options)
                        ? tolerance::orthogonality_parallel_cwy
                        : tolerance::orthogonality_parallel_sequential));
  }
}

TEMPLATE_TEST_CASE("prepare anew gives what a fresh transition gives", "[orthogonal]", float, double) {
  const Index n = GENERATE(1, 7, 48);
  for (const NamedTransition& named : all_transitions(n, (n + 1) / 2)) {
    CAPTURE(named.name, n);
    const auto used = make_transition<TestType>(named.options, n);
    const auto fresh = make_transition<TestType>(named.options, n);
    const Tensor<TestType> d_q = normal_tensor<TestType>({n, n}, 14);
    const Tensor<TestType> parameters = some_parameters(*used, 16, large_generators);
    Tensor<TestType> found(parameters.shape()), expected(parameters.shape());
    used->prepare(some_parameters(*used, 15, large_generators));
    used->backward(d_q, found);
    used->prepare(parameters);
    fresh->prepare(parameters);
    CHECK(equal(used->materialize(), fresh->materialize()));
    used->backward(d_q, found);
    fresh->backward(d_q, expected);
    CHECK(equal(found, expected));
  }
}

TEST_CASE("without a batch and a length the automatic form is that for long sequences", "[orthogonal]") {
  CHECK(make_transition<float>(Cwy{.reflections = 190}, 190)->form() == "dense");
  CHECK(make_transition<float>(Cwy{.reflections = 10}, 190)->form() == "factored");
  CHECK(make_transition<float>(Cwy{}, 1)->parameter_shape() == Shape{1, 1});
}

TEST_CASE("a bad reflection vector is named by its index", "[orthogonal][errors]") {
  for (const NamedTransition& named : reflection_transitions(4)) {
    CAPTURE(named.name);
    const auto transition = make_transition<float>(named.options, 6);
    const Tensor<float> good = normal_tensor<float>({4, 6}, 17);
    const auto check_refused = [&](float value, bool everywhere, const std::string& why) {
      CAPTURE(value, everywhere);
      Tensor<float> v = good.copy();
      for (Index j = 0; j < 6; ++j) {
        if (everywhere || j == 3) v(2, j) = value;
      }
      check_says<ValueError>([&] { transition->prepare(v); }, {"reflection vector 2", why});
    };
    check_refused(0, true, "zero");
    check_refused(-0.0f, true, "zero");
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      check_refused(bad, false, "not finite");
      check_refused(bad, true, "not finite");
    }
    // And then it still works.
    transition->prepare(good);
    CHECK(relative_error(transition->materialize(), product_of_reflections(good)) <=
          tolerance::rounding<float>(6));
  }
}

TEST_CASE("parameters that are not finite are refused", "[orthogonal][errors]") {
  for (const NamedTransition& named : all_transitions(5, 5)) {
    if (is_its_own_parameter(named.options)) continue;
    for (const double bad : {std::nan(""), double(INFINITY)}) {
      CAPTURE(named.name, bad);
      const auto transition = make_transition<double>(named.options, 5);
      Tensor<double> parameters = some_parameters(*transition, 18, large_generators);
      parameters(3, 1) = bad;
      CHECK_THROWS_AS(transition->prepare(parameters), ValueError);
    }
  }
}

TEST_CASE("wrong shapes name both", "[orthogonal][errors]") {
  for (const NamedTransition& named : all_transitions(6, 4)) {
    CAPTURE(named.name);
    const auto transition = make_transition<double>(named.options, 6);
    const std::string shape = to_string(transition->parameter_shape());
    const Tensor<double> q = identity_matrix<double>(6);
    Tensor<double> wrong({5, 7}), parameters(transition->parameter_shape());
    check_says<ShapeError>([&] { transition->prepare(wrong); }, {"[5, 7]", shape});
    check_says<ShapeError>([&] { transition->initialize(1, wrong); }, {"[5, 7]", shape});
    check_says<ShapeError>([&] { transition->parameters_of(q, wrong); }, {"[5, 7]", shape});
    check_says<ShapeError>([&] { transition->parameters_of(wrong, parameters); }, {"[5, 7]", "[6, 6]"});
    transition->prepare(some_parameters(*transition, 19, large_generators));
    check_says<ShapeError>([&] { transition->backward(wrong, parameters); }, {"[5, 7]", "[6, 6]"});
    check_says<ShapeError>([&] { transition->backward(q, wrong); }, {"[5, 7]", shape});
    Tensor<double> h({3, 7});
    CHECK_THROWS_AS(transition->apply(h), ShapeError);
    CHECK_THROWS_AS(transition->apply_transpose(h), ShapeError);
  }
  CHECK_THROWS_AS(prepare<double>(Cwy{}, Tensor<double>({3})), ShapeError);
}

TEST_CASE("the sequential form of CWY has the bits of the tiled Householder product", "[orthogonal]") {
  const Tensor<float> v = normal_tensor<float>({31, 48}, 21), d_q = normal_tensor<float>({48, 48}, 22);
  const auto cwy = prepare<float>(Cwy{.form = ReflectionForm::sequential}, v);
  const auto householder = prepare<float>(HouseholderProduct{}, v);
  CHECK(cwy->form() == "sequential");
  CHECK(equal(cwy->materialize(), householder->materialize()));
  Tensor<float> expected(v.shape()), found(v.shape());
  householder->backward(d_q, expected);
  cwy->backward(d_q, found);
  CHECK(equal(found, expected));
}

TEST_CASE("sizes outside their range are refused", "[orthogonal][errors]") {
  for (const Index l : {-1, 7}) {
    check_says<ValueError>([&] { make_transition<float>(Cwy{.reflections = l}, 6); },
                           {std::to_string(l), "6"});
    CHECK_THROWS_AS(make_transition<float>(HouseholderProduct{.reflections = l}, 6), ValueError);
    CHECK_THROWS_AS(make_transition<float>(ScaledCayley{.negative_signs = l}, 6), ValueError);
  }
  CHECK_THROWS_AS(make_transition<float>(Cwy{}, 0), ValueError);
  CHECK_THROWS_AS(make_transition<float>(MatrixExponential{}, -3), ValueError);
  CHECK_THROWS_AS(prepare<double>(Cwy{}, normal_tensor<double>({4, 3}, 20)), ValueError);
}

TEST_CASE("names of transitions and initialisers", "[orthogonal]") {
  CHECK(name_of(TransitionOptions(Cwy{})) == "cwy");
  CHECK(name_of(TransitionOptions(Unconstrained{})) == "free");
  for (const Init init : {Init::henaff, Init::cayley, Init::haar, Init::normal})
    CHECK(parse<Init>(name_of(init)) == init);
  check_says<ValueError>([] { parse<Init>("xavier"); }, {"xavier", "haar"});
}

TEMPLATE_TEST_CASE("a given matrix is applied as it is, and gets its own gradient", "[orthogonal]", float,
                   double) {
  const Tensor<TestType> q = normal_tensor<TestType>({7, 7}, 1);
  auto transition = Transition<TestType>::of_matrix(q);
  CHECK(transition.is_prepared());
  Tensor<TestType> h = normal_tensor<TestType>({3, 7}, 2);
  const Tensor<TestType> before = h.copy();
  transition.apply(h);
  for (Index b = 0; b < 3; ++b) {
    for (Index i = 0; i < 7; ++i) {
      double expected = 0;
      for (Index k = 0; k < 7; ++k) expected += double{q(i, k)} * before(b, k);
      CHECK(h(b, i) == Approx(expected).margin(50 * tolerance::epsilon<TestType>));
    }
  }
  const Tensor<TestType> d_q = normal_tensor<TestType>({7, 7}, 3);
  Tensor<TestType> d_parameters({7, 7});
  transition.backward(d_q, d_parameters);
  CHECK(relative_error(d_parameters, d_q) <= tolerance::rounding<TestType>(7));
  CHECK_THROWS_AS(Transition<TestType>::of_matrix(Tensor<TestType>({7, 6})), ShapeError);
  CHECK_THROWS_AS(Transition<TestType>::of_matrix(Tensor<TestType>({7})), ShapeError);
  CHECK_THROWS_WITH(transition.prepare(d_q), contains("another matrix"));
}

TEST_CASE("a transition is refused before it was prepared, and after that failed", "[orthogonal]") {
  for (const NamedTransition& named : all_transitions(6, 4)) {
    CAPTURE(named.name);
    const auto transition = make_transition<double>(named.options, 6);
    Tensor<double> h({2, 6});
    CHECK_THROWS_WITH(transition->apply(h), contains("before prepare()"));
    CHECK_THROWS_WITH(transition->materialize(), contains("before prepare()"));
    transition->prepare(some_parameters(*transition, 1, large_generators));
    CHECK_NOTHROW(transition->apply(h));
  }
  const auto cwy = prepare<double>(Cwy{}, normal_tensor<double>({4, 6}, 2));
  CHECK_THROWS_AS(cwy->prepare(Tensor<double>({4, 6})), ValueError);
  Tensor<double> h({2, 6});
  CHECK_THROWS_WITH(cwy->apply_transpose(h), contains("before prepare()"));
}

}  // namespace
}  // namespace orthornn::testing
