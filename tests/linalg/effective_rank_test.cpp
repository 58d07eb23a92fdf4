#include "orthornn/linalg/effective_rank.hpp"

#include <cmath>
#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("the effective rank of known matrices", "[linalg]", float, double) {
  using T = TestType;
  const auto rank = [](const Tensor<T>& x) { return effective_rank<T>(x); };
  // Singular values of a matrix in T are wrong by its rounding, and each adds its logarithm to the entropy.
  const auto near = [](double expected) {
    return Catch::Matchers::WithinAbs(expected, 100 * tolerance::rounding<T>(6));
  };
  CHECK(rank(Tensor<T>(Shape{3, 5})) == 0);
  CHECK_THAT(rank(identity_matrix<T>(6)), near(6));
  // One row and one column.
  CHECK_THAT(rank(normal_tensor<T>({1, 4}, 1)), near(1));
  CHECK_THAT(rank(normal_tensor<T>({4, 1}, 1)), near(1));
  // An outer product.
  const Tensor<T> left = normal_tensor<T>({6}, 2), right = normal_tensor<T>({3}, 3);
  Tensor<T> outer(Shape{6, 3});
  for (Index i = 0; i < 6; ++i) {
    for (Index j = 0; j < 3; ++j) outer(i, j) = left(i) * right(j);
  }
  CHECK_THAT(rank(outer), near(1));
  // Two singular values in the proportion 3 to 1, and rows and columns of zeros.
  Tensor<T> two(Shape{4, 3});
  two(1, 2) = T(-0.75);
  two(3, 0) = T(0.25);
  const double expected = std::exp(-0.75 * std::log(0.75) - 0.25 * std::log(0.25));
  CHECK_THAT(rank(two), near(expected));
  // Squares of these overflow, or vanish.
  for (const T size : {std::numeric_limits<T>::max(), std::numeric_limits<T>::min()}) {
    Tensor<T> scaled = two.copy();
    for (T& x : scaled) x *= size;
    CHECK_THAT(rank(scaled), near(expected));
  }
}

TEST_CASE("matrices without an effective rank are refused", "[linalg]") {
  CHECK_THROWS_AS(effective_rank<float>(Tensor<float>(Shape{4})), ShapeError);
  for (const float bad : {NAN, INFINITY}) {
    Tensor<float> x = identity_matrix<float>(3);
    x(1, 2) = bad;
    CHECK_THROWS_AS(effective_rank<float>(x), ValueError);
  }
}

}  // namespace
}  // namespace orthornn::testing
