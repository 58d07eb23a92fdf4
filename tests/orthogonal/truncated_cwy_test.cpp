// T-CWY: a point of the Stiefel manifold from M reflection vectors.

#include "orthornn/orthogonal/truncated_cwy.hpp"

#include "orthornn/linalg/orthogonality.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"

namespace orthornn::testing {
namespace {

using StiefelSizes = std::pair<Index, Index>;  // N, M

auto edge_stiefel_sizes() {
  return GENERATE(StiefelSizes{1, 1}, StiefelSizes{2, 1}, StiefelSizes{2, 2}, StiefelSizes{7, 1},
                  StiefelSizes{7, 4}, StiefelSizes{7, 7}, StiefelSizes{48, 1}, StiefelSizes{48, 31},
                  StiefelSizes{48, 48}, StiefelSizes{190, 190}, StiefelSizes{193, 60},
                  StiefelSizes{193, 193});
}

template <class T>
Tensor<T> first_columns(const Tensor<T>& q, Index m) {
  Tensor<T> result({q.shape()[0], m});
  for (Index i = 0; i < q.shape()[0]; ++i) {
    for (Index j = 0; j < m; ++j) result(i, j) = q(i, j);
  }
  return result;
}

TEMPLATE_TEST_CASE("T-CWY is the first M columns of the product of reflections", "[orthogonal]", float,
                   double) {
  const auto [n, m] = edge_stiefel_sizes();
  CAPTURE(n, m);
  const Tensor<TestType> v = normal_tensor<TestType>({m, n}, 1);
  TruncatedCwy<TestType> stiefel(n, m);
  stiefel.prepare(v);
  CHECK(stiefel.omega().shape() == Shape{n, m});
  CHECK(equal(stiefel.materialize(), stiefel.omega()));
  CHECK(relative_error(stiefel.omega(), first_columns(product_of_reflections(v), m)) <=
        tolerance::rounding<TestType>(n));
  for (const NamedTransition& named : reflection_transitions(m)) {
    CAPTURE(named.name);
    CHECK(relative_error(stiefel.omega(), first_columns(prepare<TestType>(named.options, v)->materialize(),
                                                        m)) <= tolerance::rounding<TestType>(n));
  }
  CHECK(orthogonality_error(stiefel.omega()) <= tolerance::rounding<TestType>(n));
}

TEMPLATE_TEST_CASE("T-CWY applies Omega and its transpose", "[orthogonal]", float, double) {
  const auto [n, m] =
      GENERATE(StiefelSizes{1, 1}, StiefelSizes{7, 4}, StiefelSizes{48, 48}, StiefelSizes{193, 60});
  const Index count = GENERATE(1, 33);
  CAPTURE(n, m, count);
  TruncatedCwy<TestType> stiefel(n, m);
  stiefel.prepare(normal_tensor<TestType>({m, n}, 2));
  const Tensor<TestType> omega = stiefel.materialize();
  const Tensor<TestType> x = normal_tensor<TestType>({count, m}, 3),
                         y = normal_tensor<TestType>({count, n}, 4);
  Tensor<TestType> omega_x({count, n}), omega_t_y({count, m});
  for (TestType& value : omega_x) value = TestType(NAN);
  for (TestType& value : omega_t_y) value = TestType(NAN);
  stiefel.apply(x, omega_x);
  stiefel.apply_transpose(y, omega_t_y);
  // Rows of x are vectors: X Omega^T and Y Omega.
  CHECK(relative_error(omega_x, matrix_product(x, transpose_of(omega))) <= tolerance::rounding<TestType>(n));
  CHECK(relative_error(omega_t_y, matrix_product(y, omega)) <= tolerance::rounding<TestType>(n));
}

double loss(TruncatedCwy<double>& stiefel, const Tensor<double>& v, const Tensor<double>& d_omega) {
  stiefel.prepare(v);
  return inner_product(stiefel.omega(), d_omega);
}

TEST_CASE("backward of T-CWY agrees with central differences", "[orthogonal][gradient]") {
  const auto [n, m] = GENERATE(StiefelSizes{2, 1}, StiefelSizes{2, 2}, StiefelSizes{7, 1}, StiefelSizes{7, 4},
                               StiefelSizes{7, 7}, StiefelSizes{12, 5});
  CAPTURE(n, m);
  TruncatedCwy<double> stiefel(n, m);
  Tensor<double> v = normal_tensor<double>({m, n}, 5);
  const Tensor<double> d_omega = normal_tensor<double>({n, m}, 6);
  const Tensor<double> expected = finite_differences(v, [&] { return loss(stiefel, v, d_omega); });
  Tensor<double> gradient(v.shape());
  stiefel.prepare(v);
  stiefel.backward(d_omega, gradient);
  CHECK(relative_error(gradient, expected) <= tolerance::finite_difference);
}

TEST_CASE("backward of T-CWY agrees with that of CWY for a gradient of its first columns alone",
          "[orthogonal][gradient]") {
  const auto [n, m] = edge_stiefel_sizes();
  CAPTURE(n, m);
  const Tensor<double> v = normal_tensor<double>({m, n}, 7);
  const Tensor<double> d_omega = normal_tensor<double>({n, m}, 8);
  Tensor<double> d_q({n, n}), expected(v.shape()), found(v.shape());
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < m; ++j) d_q(i, j) = d_omega(i, j);
  }
  prepare<double>(Cwy{.form = ReflectionForm::dense}, v)->backward(d_q, expected);
  TruncatedCwy<double> stiefel(n, m);
  stiefel.prepare(v);
  stiefel.backward(d_omega, found);
  if (n == 1) {
    CHECK(frobenius_norm(found) <= 1e-14 * frobenius_norm(d_omega));
  } else {
    CHECK(relative_error(found, expected) <= 10 * tolerance::rounding<double>(n));
  }
}

TEMPLATE_TEST_CASE("the gradient of T-CWY is orthogonal to each vector", "[orthogonal][gradient]", float,
                   double) {
  const auto [n, m] = GENERATE(StiefelSizes{7, 4}, StiefelSizes{48, 48}, StiefelSizes{193, 60});
  const Tensor<TestType> v = normal_tensor<TestType>({m, n}, 9);
  TruncatedCwy<TestType> stiefel(n, m);
  stiefel.prepare(v);
  Tensor<TestType> dv(v.shape());
  stiefel.backward(normal_tensor<TestType>({n, m}, 10), dv);
  for (Index i = 0; i < m; ++i) {
    REQUIRE(std::abs(inner_product(v.view()[i], dv.view()[i])) <= tolerance::along_the_vector<TestType>(n) *
                                                                      frobenius_norm(v.view()[i]) *
                                                                      frobenius_norm(dv.view()[i]));
  }
}

TEST_CASE("T-CWY does not depend on the lengths of its vectors and stays orthogonal for nearly parallel ones",
          "[orthogonal]") {
  const float scale = GENERATE(-2.0f, 1e-30f, 1e30f);
  Tensor<float> v = normal_tensor<float>({4, 9}, 11);
  TruncatedCwy<float> stiefel(9, 4);
  stiefel.prepare(v);
  const Tensor<float> expected = stiefel.materialize();
  for (float& x : v) x *= scale;
  stiefel.prepare(v);
  CHECK(relative_error(stiefel.omega(), expected) <= tolerance::rounding<float>(9));

  TruncatedCwy<float> tall(256, 128);
  tall.prepare(nearly_parallel_vectors<float>(128, 256, 0.01, 12));
  CHECK(orthogonality_error_in_1_norm(tall.materialize()) <=
        tolerance::orthogonality_parallel_cwy * 256 * tolerance::epsilon<float>);
}

TEST_CASE("T-CWY can be prepared anew and its backward repeated", "[orthogonal]") {
  const Tensor<double> v = normal_tensor<double>({3, 8}, 13), d_omega = normal_tensor<double>({8, 3}, 14);
  TruncatedCwy<double> used(8, 3), fresh(8, 3);
  Tensor<double> found(v.shape()), expected(v.shape());
  used.prepare(normal_tensor<double>({3, 8}, 15));
  used.backward(d_omega, found);
  used.prepare(v);
  fresh.prepare(v);
  CHECK(equal(used.omega(), fresh.omega()));
  fresh.backward(d_omega, expected);
  for (int i = 0; i < 2; ++i) {
    used.backward(d_omega, found);
    CHECK(equal(found, expected));
  }
}

TEST_CASE("T-CWY refuses what it cannot do", "[orthogonal][errors]") {
  check_says<ValueError>([] { TruncatedCwy<float>(4, 5); }, {"4", "5"});
  CHECK_THROWS_AS(TruncatedCwy<float>(4, 0), ValueError);
  CHECK_THROWS_AS(TruncatedCwy<float>(4, -1), ValueError);
  TruncatedCwy<float> stiefel(5, 3);
  Tensor<float> wrong({5, 3});
  check_says<ShapeError>([&] { stiefel.prepare(wrong); }, {"[5, 3]", "[3, 5]"});
  check_says<ShapeError>([&] { stiefel.initialize(1, wrong); }, {"[5, 3]", "[3, 5]"});
  Tensor<float> v = normal_tensor<float>({3, 5}, 16);
  check_says<ShapeError>([&] { stiefel.backward(v, v); }, {"[3, 5]", "[5, 3]"});
  v(1, 4) = NAN;
  check_says<ValueError>([&] { stiefel.prepare(v); }, {"reflection vector 1", "not finite"});
  for (Index j = 0; j < 5; ++j) v(1, j) = 0;
  check_says<ValueError>([&] { stiefel.prepare(v); }, {"reflection vector 1", "zero"});
}

}  // namespace
}  // namespace orthornn::testing
