// Points of the Stiefel manifold by name: T-CWY, orthogonal weight normalization, the point itself.

#include "orthornn/orthogonal/stiefel_point.hpp"

#include <cmath>
#include <limits>

#include "linalg/decompositions.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/errors.hpp"
#include "support/finite_differences.hpp"
#include "support/gpu.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

using Sizes = std::pair<Index, Index>;  // N, M

constexpr StiefelKind every_kind[] = {StiefelKind::truncated_cwy, StiefelKind::weight_normalization,
                                      StiefelKind::matrix};

/// V [N, M] far from dependent columns: the singular values of a normal matrix over sqrt(N), and 1.
template <class T>
Tensor<T> independent_columns(Index n, Index m, std::uint64_t seed) {
  Tensor<T> v = normal_tensor<T>({n, m}, seed, 0.3 / std::sqrt(double(n)));
  for (Index i = 0; i < m; ++i) v(i, i) += T{1};
  return v;
}

TEST_CASE("a point has a parameter of its kind", "[orthogonal]") {
  const auto check = [](StiefelKind kind, const char* name, const Shape& shape, ParameterKind treated) {
    const Parameter found = stiefel_parameter(kind, 7, 3);
    CHECK(found.name == name);
    CHECK(found.shape == shape);
    CHECK(found.kind == treated);
  };
  check(StiefelKind::truncated_cwy, "reflection_vectors", {3, 7}, ParameterKind::orthogonal);
  check(StiefelKind::weight_normalization, "proxy_matrix", {7, 3}, ParameterKind::orthogonal);
  check(StiefelKind::matrix, "stiefel_matrix", {7, 3}, ParameterKind::stiefel);
  for (const StiefelKind kind : every_kind) {
    CHECK_THROWS_AS(stiefel_parameter(kind, 3, 4), ValueError);
    CHECK_THROWS_AS(make_stiefel_point<float>(kind, 3, 0), ValueError);
  }
}

TEMPLATE_TEST_CASE("a given point has parameters", "[orthogonal][init]", float, double) {
  using T = TestType;
  const auto [n, m] = GENERATE(Sizes{5, 1}, Sizes{7, 3}, Sizes{48, 48}, Sizes{193, 60});
  const Tensor<T> drawn = [n = n, m = m] {
    const auto point = make_stiefel_point<T>(StiefelKind::truncated_cwy, n, m);
    Tensor<T> vectors({m, n}), omega({n, m});
    point->initialize(9, vectors);
    point->prepare(vectors);
    copy<T>(point->omega(), omega);
    return omega;
  }();
  for (const StiefelKind kind : every_kind) {
    CAPTURE(static_cast<int>(kind), n, m);
    const auto point = make_stiefel_point<T>(kind, n, m);
    Tensor<T> found(stiefel_parameter(kind, n, m).shape);
    point->parameters_of(drawn, found);
    point->prepare(found);
    Tensor<T> again({n, m});
    copy<T>(point->omega(), again);
    // Both are off by the rounding of sums of N numbers.
    for (Index i = 0; i < drawn.size(); ++i)
      CHECK(std::abs(again.data()[i] - drawn.data()[i]) <= double(n) * std::numeric_limits<T>::epsilon());
    Tensor<T> wrong_shape({n + 1, m});
    CHECK_THROWS_AS(point->parameters_of(wrong_shape, found), ShapeError);
    CHECK_THROWS_AS(point->parameters_of(drawn, wrong_shape), ShapeError);
    for (const T off : {T{2}, std::numeric_limits<T>::quiet_NaN()}) {
      Tensor<T> other = drawn.copy();
      other(n - 1, m - 1) += off;
      check_says<ValueError>([&] { point->parameters_of(other, found); }, {"not orthonormal"});
    }
  }
}

TEMPLATE_TEST_CASE("a point has orthonormal columns as it is drawn", "[orthogonal]", float, double) {
  using T = TestType;
  const auto [n, m] = GENERATE(Sizes{1, 1}, Sizes{7, 3}, Sizes{48, 48}, Sizes{193, 60});
  Tensor<T> first({n, m});
  for (const StiefelKind kind : every_kind) {
    CAPTURE(static_cast<int>(kind), n, m);
    const auto point = make_stiefel_point<T>(kind, n, m);
    Tensor<T> parameters(stiefel_parameter(kind, n, m).shape);
    point->initialize(5, parameters);
    point->prepare(parameters);
    CHECK(orthogonality_error<T>(point->omega()) <= tolerance::rounding<T>(n));
    // One seed is one point, whatever makes it.
    if (kind == StiefelKind::truncated_cwy) copy<T>(point->omega(), first);
    CHECK(relative_error(point->omega(), first) <= tolerance::rounding<T>(n));
  }
}

TEST_CASE("orthogonal weight normalization gives the polar factor", "[orthogonal]") {
  // V = Omega P with a symmetric positive definite P, here [2 1; 1 2] of eigenvalues 1 and 3.
  Tensor<double> omega({3, 2}), p({2, 2});
  omega(0, 0) = 0.6;
  omega(1, 0) = 0.8;
  omega(2, 1) = -1;
  p(0, 0) = p(1, 1) = 2;
  p(0, 1) = p(1, 0) = 1;
  const Tensor<double> v = matrix_product(omega, p);
  const auto point = make_stiefel_point<double>(StiefelKind::weight_normalization, 3, 2);
  point->prepare(v);
  CHECK(relative_error(point->omega(), omega) <= tolerance::rounding<double>(3));
}

TEMPLATE_TEST_CASE("orthogonal weight normalization is orthogonal for any condition, and ignores scale",
                   "[orthogonal]", float, double) {
  using T = TestType;
  const Index n = 40, m = 30;
  Tensor<T> v = independent_columns<T>(n, m, 2);
  for (Index i = 0; i < n; ++i) v(i, 4) = T(1e-3) * v(i, 4) + v(i, 7);  // nearly parallel columns
  const auto point = make_stiefel_point<T>(StiefelKind::weight_normalization, n, m);
  point->prepare(v);
  // V^T V has the condition 1e7, whose rounding in double is below that of float.
  const double bound = tolerance::rounding<T>(n) + 1e7 * tolerance::epsilon<double>;
  CHECK(orthogonality_error<T>(point->omega()) <= bound);
  Tensor<T> before({n, m});
  copy<T>(point->omega(), before);
  for (T& x : v) x *= T(1e6);
  point->prepare(v);
  CHECK(relative_error(point->omega(), before) <= bound);
}

TEST_CASE("backward of every point agrees with central differences", "[orthogonal][gradient]") {
  const auto [n, m] = GENERATE(Sizes{2, 1}, Sizes{2, 2}, Sizes{7, 1}, Sizes{7, 4}, Sizes{7, 7}, Sizes{12, 5});
  for (const StiefelKind kind : every_kind) {
    CAPTURE(static_cast<int>(kind), n, m);
    const auto point = make_stiefel_point<double>(kind, n, m);
    Tensor<double> parameters = kind == StiefelKind::truncated_cwy ? normal_tensor<double>({m, n}, 3)
                                                                   : independent_columns<double>(n, m, 3);
    const Tensor<double> d_omega = normal_tensor<double>({n, m}, 4);
    const Tensor<double> expected = finite_differences(parameters, [&] {
      point->prepare(parameters);
      return inner_product(point->omega(), d_omega);
    });
    Tensor<double> found(parameters.shape());
    point->prepare(parameters);
    point->backward(d_omega, found);
    CHECK(relative_error(found, expected) <= tolerance::finite_difference);
    // Again, which the first pass must not have spoilt.
    point->backward(d_omega, found);
    CHECK(relative_error(found, expected) <= tolerance::finite_difference);
  }
}

TEST_CASE("columns that are dependent or not finite have no polar factor", "[orthogonal][errors]") {
  const auto point = make_stiefel_point<float>(StiefelKind::weight_normalization, 5, 3);
  Tensor<float> v = independent_columns<float>(5, 3, 5);
  for (Index i = 0; i < 5; ++i) v(i, 2) = 2 * v(i, 0);
  check_says<ValueError>([&] { point->prepare(v); }, {"proxy_matrix", "linearly independent"});
  const Tensor<float> zero({5, 3});
  CHECK_THROWS_AS(point->prepare(zero), ValueError);
  for (const float bad : {NAN, INFINITY}) {
    v = independent_columns<float>(5, 3, 5);
    v(4, 1) = bad;
    CHECK_THROWS_AS(point->prepare(v), ValueError);
  }
  const Tensor<float> turned({3, 5});
  check_says<ShapeError>([&] { point->prepare(turned); }, {"proxy_matrix", "[3, 5]", "[5, 3]"});
}

TEMPLATE_TEST_CASE("every point is the same on a GPU", "[orthogonal][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const auto [n, m] = GENERATE(Sizes{1, 1}, Sizes{7, 3}, Sizes{70, 66}, Sizes{193, 60});
  for (const StiefelKind kind : every_kind) {
    if (kind == StiefelKind::weight_normalization && !has_decompositions(*device)) continue;
    CAPTURE(static_cast<int>(kind), n, m);
    const Tensor<T> parameters =
        kind == StiefelKind::truncated_cwy ? normal_tensor<T>({m, n}, 6) : independent_columns<T>(n, m, 6);
    const Tensor<T> d_omega = normal_tensor<T>({n, m}, 7);
    const auto here = make_stiefel_point<T>(kind, n, m), there = make_stiefel_point<T>(kind, n, m, *device);
    const Tensor<T> parameters_there = parameters.copy(*device), d_there = d_omega.copy(*device);
    Tensor<T> expected(parameters.shape()), found(parameters.shape(), *device), omega({n, m});
    here->prepare(parameters);
    here->backward(d_omega, expected);
    there->prepare(parameters_there);
    there->backward(d_there, found);
    copy<T>(there->omega(), omega);
    CHECK(relative_error(omega, here->omega()) <= tolerance::rounding<T>(n));
    if (n > 1) {
      CHECK(relative_error(found.copy(Device::cpu()), expected) <= 10 * tolerance::rounding<T>(n));
    }
  }
  if (!has_decompositions(*device)) return;
  const auto there = make_stiefel_point<T>(StiefelKind::weight_normalization, n, m, *device);
  const Tensor<T> zero({n, m}, *device);
  there->prepare(zero);
  CHECK_THROWS_AS(synchronize(*device), ValueError);
}

}  // namespace
}  // namespace orthornn::testing
