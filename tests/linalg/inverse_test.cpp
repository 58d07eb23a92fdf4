// Triangular and general inverses, at sizes around the borders of their recursions.

#include "linalg/inverse.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("the inverse of an upper triangular matrix", "[linalg]", float, double) {
  using T = TestType;
  const Index n = GENERATE(1, 2, 7, 31, 32, 33, 65, 190, 193);
  CAPTURE(n);
  // Column-major, so the upper part is where the first index of C order is the larger one; off-diagonal
  // entries as small as those of U^T U for random vectors. What lies below is not to be touched.
  Tensor<T> a = normal_tensor<T>({n, n}, 1, 1 / std::sqrt(double(n)));
  Tensor<T> triangle({n, n});
  for (Index j = 0; j < n; ++j) {
    a(j, j) = T(j % 3 == 0 ? -0.5 : 0.5);
    for (Index i = 0; i < n; ++i) {
      if (i > j) a(j, i) = std::numeric_limits<T>::quiet_NaN();
      triangle(j, i) = i <= j ? a(j, i) : T(0);
    }
  }
  invert_upper_triangular(columns_of(a));
  Tensor<T> inverse({n, n});
  for (Index j = 0; j < n; ++j) {
    for (Index i = 0; i < n; ++i) {
      if (i > j) REQUIRE(std::isnan(a(j, i)));
      inverse(j, i) = i <= j ? a(j, i) : T(0);
    }
  }
  const double condition = frobenius_norm(triangle) * frobenius_norm(inverse) / double(n);
  CHECK(relative_error(matrix_product(inverse, triangle), identity_matrix<double>(n)) <=
        condition * tolerance::rounding<T>(n));
}

TEST_CASE("the inverse of a triangular block with a stride", "[linalg]") {
  Tensor<double> a = normal_tensor<double>({40, 50}, 2);  // 50 x 40 in column-major
  const Tensor<double> before = a.copy();
  for (Index j = 0; j < 40; ++j) a(j, j) = 4;
  invert_upper_triangular(MatrixView<double>{a.data(), 40, 40, 50});
  for (Index j = 0; j < 40; ++j) {
    CHECK(a(j, j) == 0.25);
    for (Index i = j + 1; i < 50; ++i) REQUIRE(a(j, i) == before(j, i));
  }
}

template <class T>
Tensor<T> inverted(const Tensor<T>& a) {
  const Index n = a.shape()[0];
  Tensor<T> result = a.copy(), workspace({n, n});
  for (T& x : workspace) x = std::numeric_limits<T>::quiet_NaN();
  std::vector<std::int64_t> pivots(static_cast<std::size_t>(n), -1);
  invert_general(columns_of(result), columns_of(workspace), pivots.data());
  return result;
}

template <class T>
void check_inverse(const Tensor<T>& a) {
  const Tensor<T> inverse = inverted(a);
  const Index n = a.shape()[0];
  // The residual of Gaussian elimination is relative to |A| |A^-1|.
  const double condition = frobenius_norm(a) * frobenius_norm(inverse) / std::sqrt(double(n));
  const double bound = condition * tolerance::rounding<T>(n);
  CHECK(relative_error(matrix_product(inverse, a), identity_matrix<double>(n)) <= bound);
  CHECK(relative_error(matrix_product(a, inverse), identity_matrix<double>(n)) <= bound);
}

TEMPLATE_TEST_CASE("the inverse of a general matrix", "[linalg]", float, double) {
  using T = TestType;
  const Index n = GENERATE(1, 2, 3, 15, 16, 17, 33, 64, 100, 193);
  CAPTURE(n);
  SECTION("random") { check_inverse(normal_tensor<T>({n, n}, 3)); }
  SECTION("I + A for a skew-symmetric A, as in the Cayley transform") {
    const Tensor<T> x = normal_tensor<T>({n, n}, 4);
    Tensor<T> a = identity_matrix<T>(n);
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) a(i, j) += x(i, j) - x(j, i);
    }
    check_inverse(a);
  }
  SECTION("zeros where the pivots are looked for first") {
    Tensor<T> a({n, n});
    for (Index i = 0; i < n; ++i) a(i, (i + 1) % n) = T(i + 1);
    check_inverse(a);
  }
  SECTION("rows of very different size") {
    Tensor<T> a = normal_tensor<T>({n, n}, 5);
    // Without pivoting the small one in front would be divided by.
    a(0, 0) = T(1e-6);
    check_inverse(a);
  }
}

TEST_CASE("the inverse of a singular matrix is not finite", "[linalg]") {
  const Index n = GENERATE(1, 5, 40);
  CAPTURE(n);
  Tensor<double> a = normal_tensor<double>({n, n}, 6);
  for (Index i = 0; i < n; ++i) a(i, n / 2) = 0;
  bool is_finite = true;
  for (const double x : inverted(a)) is_finite = is_finite && std::isfinite(x);
  CHECK_FALSE(is_finite);
}

}  // namespace
}  // namespace orthornn::testing
