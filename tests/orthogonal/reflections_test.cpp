// The pieces that every product of reflections shares, and the two ways to reflect one after another.

#include "products/reflections.hpp"

#include <initializer_list>
#include <limits>

#include "linalg/elementwise.hpp"
#include "linalg/s_factor.hpp"
#include "orthogonal/reflectors.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/same_bits.hpp"
#include "support/tolerances.hpp"
#include "support/transitions.hpp"
#include "support/unit_vectors.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("reflectors are normalised at any length", "[orthogonal]", float, double) {
  using T = TestType;
  const double scale = GENERATE_COPY(1.0, 1e-30, 1e30, double(std::numeric_limits<T>::min()) * 10,
                                     double(std::numeric_limits<T>::max()) / 100);
  CAPTURE(scale);
  Tensor<T> v = normal_tensor<T>({3, 7}, 1), u({3, 7}), norms({3});
  for (T& x : v) x = static_cast<T>(double(x) * scale);
  normalize_reflectors<T>(v, u, norms);
  for (Index i = 0; i < 3; ++i) {
    CHECK(std::abs(frobenius_norm(u.view()[i]) - 1) <= tolerance::rounding<T>(1));
    long double squares = 0;
    for (const T x : v.view()[i]) squares += static_cast<long double>(x) * x;
    const double norm = static_cast<double>(std::sqrt(squares));
    CHECK(std::abs(double(norms(i)) - norm) <= tolerance::rounding<T>(1) * norm);
    for (Index j = 0; j < 7; ++j)
      CHECK(std::abs(double(u(i, j)) - double(v(i, j)) / norm) <= tolerance::rounding<T>(1));
  }
}

TEST_CASE("a subnormal vector is normalised too", "[orthogonal]") {
  Tensor<float> v({1, 2}), u({1, 2}), norms({1});
  v(0, 0) = 3 * std::numeric_limits<float>::denorm_min();
  v(0, 1) = -4 * std::numeric_limits<float>::denorm_min();
  normalize_reflectors<float>(v, u, norms);
  CHECK(std::abs(u(0, 0) - 0.6f) <= 1e-6f);
  CHECK(std::abs(u(0, 1) + 0.8f) <= 1e-6f);
}

TEMPLATE_TEST_CASE("a product with the inverse of S is that of the formula", "[orthogonal]", float, double) {
  using T = TestType;
  // 64 rows are solved at once.
  const auto [n, l] = GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{7, 3}, ReflectionSizes{48, 48},
                               ReflectionSizes{193, 100});
  CAPTURE(n, l);
  const Tensor<T> u = unit_vectors<T>(l, n, 2);
  Tensor<T> s({l, l}), x({l, n}), back({l, n});
  make_s_factor<T>(columns_of(u), columns_of(s));
  Tensor<double> exact({l, l});
  for (Index i = 0; i < l; ++i) {
    exact(i, i) = 0.5;
    for (Index j = i + 1; j < l; ++j) exact(i, j) = inner_product(u.view()[i], u.view()[j]);
  }
  // Columns lie one after another: in C order x^T = S^-T u^T, so S^T x^T = u^T.
  times_s_inverse<T>(columns_of(u), columns_of(std::as_const(s)), columns_of(x));
  CHECK(relative_error(matrix_product(transpose_of(exact), x), u) <= tolerance::rounding<T>(n));
  times_s_inverse<T>(columns_of(u), transposed(columns_of(std::as_const(s))), columns_of(x));
  CHECK(relative_error(matrix_product(exact, x), u) <= tolerance::rounding<T>(n));
}

TEST_CASE("a product with the inverse of S has the same bits for every number of threads", "[orthogonal]") {
  const Tensor<float> u = unit_vectors<float>(40, 300, 3);
  Tensor<float> s({40, 40}), x({40, 300}), expected({40, 300});
  make_s_factor<float>(columns_of(u), columns_of(s));
  const auto solve = [&](int threads, Tensor<float>& result) {
    const Threads scope(threads);
    times_s_inverse<float>(columns_of(u), columns_of(std::as_const(s)), columns_of(result));
  };
  solve(1, expected);
  for (const int threads : {2, 3, 8}) {
    solve(threads, x);
    CHECK(same_bits(x, expected));
  }
}

/// Applies the reflections in an order and checks out and the coefficients against their definition.
template <class T, class Reflect>
void check_reflections(const Reflect& reflect, bool records_coefficients, Index n, Index l, Index count,
                       ReflectionOrder order) {
  CAPTURE(n, l, count, order == ReflectionOrder::first_to_last);
  Tensor<T> u({l, n}), norms({l}), c({count, l});
  normalize_reflectors<T>(normal_tensor<T>({l, n}, 3), u, norms);
  const Tensor<T> x = normal_tensor<T>({count, n}, 4), before = normal_tensor<T>({count, n}, 5);
  Tensor<T> out = before.copy();
  for (T& value : c) value = T(NAN);
  reflect(columns_of(std::as_const(u)), order, columns_of(x), columns_of(out), columns_of(c));

  Tensor<double> expected = cast<double>(before), coefficients({count, l});
  for (Index j = 0; j < count; ++j) {
    Tensor<double> state = cast<double>(x.view()[j]);
    for (Index step = 0; step < l; ++step) {
      const Index i = order == ReflectionOrder::first_to_last ? step : l - 1 - step;
      coefficients(j, i) = 2 * inner_product(u.view()[i], state);
      for (Index k = 0; k < n; ++k) state(k) -= coefficients(j, i) * double(u(i, k));
    }
    for (Index k = 0; k < n; ++k) expected(j, k) += state(k);
  }
  CHECK(relative_error(out, expected) <= tolerance::rounding<T>(n));
  if (records_coefficients) CHECK(relative_error(c, coefficients) <= tolerance::rounding<T>(n));
}

TEMPLATE_TEST_CASE("reflections one after another, in tiles and as rank-one updates", "[orthogonal]", float,
                   double) {
  using T = TestType;
  const auto [n, l] = GENERATE(ReflectionSizes{1, 1}, ReflectionSizes{3, 2}, ReflectionSizes{7, 7},
                               ReflectionSizes{48, 1}, ReflectionSizes{193, 20});
  // Around the 8 or 16 columns of a tile.
  const Index count = GENERATE(1, 7, 8, 9, 15, 16, 17, 40);
  for (const ReflectionOrder order : {ReflectionOrder::first_to_last, ReflectionOrder::last_to_first}) {
    check_reflections<T>([](auto... a) { reflect_tiles<T>(a...); }, true, n, l, count, order);
    check_reflections<T>(
        [](auto u, auto o, auto x, auto out, auto) { reflect_by_rank_one_updates<T>(u, o, x, out); }, false,
        n, l, count, order);
  }
}

TEST_CASE("symmetrize_strict_upper copies the upper part down and clears the diagonal", "[orthogonal]") {
  Tensor<double> m = normal_tensor<double>({5, 5}, 6);
  const Tensor<double> before = m.copy();
  symmetrize_strict_upper(columns_of(m));
  for (Index i = 0; i < 5; ++i) {
    CHECK(m(i, i) == 0);
    // Column-major: the upper part is where the second index of C order is the smaller one.
    for (Index j = 0; j < i; ++j) {
      CHECK(m(i, j) == before(i, j));
      CHECK(m(j, i) == before(i, j));
    }
  }
}

TEST_CASE("backward of the normalisation agrees with central differences", "[orthogonal][gradient]") {
  Tensor<double> v = normal_tensor<double>({3, 5}, 7), u({3, 5}), norms({3});
  const Tensor<double> du = normal_tensor<double>({3, 5}, 8);
  const Tensor<double> expected = finite_differences(v, [&] {
    normalize_reflectors<double>(v, u, norms);
    return inner_product(u, du);
  });
  normalize_reflectors<double>(v, u, norms);
  // Into the memory of du itself.
  Tensor<double> dv = du.copy();
  backward_of_normalize<double>(u, norms, dv, dv);
  CHECK(relative_error(dv, expected) <= tolerance::finite_difference);
}

}  // namespace
}  // namespace orthornn::testing
