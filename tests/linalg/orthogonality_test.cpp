#include "orthornn/linalg/orthogonality.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("the orthogonality error of known matrices", "[linalg]", float, double) {
  using T = TestType;
  Tensor<T> q = identity_matrix<T>(4);
  CHECK(orthogonality_error(q) == 0);
  q(2, 2) = -1;
  CHECK(orthogonality_error(q) == 0);
  // Columns 1 and 3 have the product 0.25, column 3 the square 1.0625.
  q(1, 3) = T(0.25);
  CHECK(orthogonality_error(q) == 0.25);
  q(1, 3) = 0;
  q(3, 3) = 3;
  CHECK(orthogonality_error(q) == 8);
  q(3, 3) = 0;
  CHECK(orthogonality_error(q) == 1);
}

TEST_CASE("the orthogonality error of a tall matrix is that of its columns", "[linalg]") {
  Tensor<double> q({3, 2});
  q(0, 0) = q(2, 1) = 1;
  CHECK(orthogonality_error(q) == 0);
  q(1, 1) = 0.5;
  CHECK(orthogonality_error(q) == 0.25);
  q(0, 1) = 0.5;
  CHECK(orthogonality_error(q) == 0.5);
}

TEST_CASE("the orthogonality error of a rounded matrix is of the order of its rounding", "[linalg]") {
  const Tensor<float> q = cast<float>(product_of_reflections(normal_tensor<double>({30, 40}, 1)));
  CHECK(orthogonality_error(q) > 1e-9);
  CHECK(orthogonality_error(q) < 2e-7);
}

TEST_CASE("a NaN anywhere makes the orthogonality error NaN", "[linalg]") {
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 3; ++j) {
      CAPTURE(i, j);
      Tensor<float> q = identity_matrix<float>(3);
      q(i, j) = NAN;
      CHECK(std::isnan(orthogonality_error(q)));
    }
  }
}

}  // namespace
}  // namespace orthornn::testing
