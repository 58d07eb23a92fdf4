#include <cmath>
#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "orthornn/linalg/orthogonality.hpp"
#include "support/catch.hpp"
#include "support/gpu.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("the orthogonality error on a GPU is that of the CPU", "[linalg][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  const auto both_agree = [&](const Tensor<T>& q) {
    const double expected = orthogonality_error(q);
    // Two orders of one sum.
    return std::abs(orthogonality_error(q.copy(*device)) - expected) <= 1e-14 + 1e-12 * expected;
  };
  for (const Index n : {1, 7, 100}) {
    CAPTURE(n);
    Tensor<T> q = identity_matrix<T>(n);
    CHECK(orthogonality_error(q.copy(*device)) == 0);
    q(n - 1, n - 1) = 3;
    CHECK(orthogonality_error(q.copy(*device)) == 8);
    q(n - 1, n - 1) = 0;
    CHECK(orthogonality_error(q.copy(*device)) == 1);
    CHECK(both_agree(normal_tensor<T>({n, n}, 1)));
    CHECK(both_agree(normal_tensor<T>({n, (n + 1) / 2}, 2)));
    CHECK(both_agree(cast<T>(product_of_reflections(normal_tensor<double>({n, n}, 3)))));
  }
  CHECK_THROWS_AS(orthogonality_error(Tensor<T>(Shape{2, 3}, *device)), ShapeError);
}

TEST_CASE("a NaN anywhere makes the orthogonality error on a GPU NaN", "[linalg][cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 3; ++j) {
      CAPTURE(i, j);
      Tensor<float> q = identity_matrix<float>(3);
      q(i, j) = NAN;
      CHECK(std::isnan(orthogonality_error(q.copy(*device))));
    }
  }
}

}  // namespace
}  // namespace orthornn::testing
