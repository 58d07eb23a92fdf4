#include "orthornn/linalg/eigenvalue_angles.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "orthornn/core/error.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

TEMPLATE_TEST_CASE("the angles of known eigenvalues", "[linalg]", float, double) {
  using T = TestType;
  CHECK(eigenvalue_angles<T>(identity_matrix<T>(3)) == std::vector<double>{0, 0, 0});
  // Turns by 2.5, by 1e-3, and a reflection.
  Tensor<T> turns(Shape{5, 5});
  const double angles[] = {2.5, 1e-3};
  for (Index i = 0; i < 2; ++i) {
    turns(2 * i, 2 * i) = turns(2 * i + 1, 2 * i + 1) = static_cast<T>(std::cos(angles[i]));
    turns(2 * i + 1, 2 * i) = static_cast<T>(std::sin(angles[i]));
    turns(2 * i, 2 * i + 1) = -turns(2 * i + 1, 2 * i);
  }
  turns(4, 4) = -1;
  const std::vector<double> found = eigenvalue_angles<T>(turns);
  const double expected[] = {-2.5, -1e-3, 1e-3, 2.5, std::numbers::pi};
  REQUIRE(found.size() == 5);
  for (std::size_t i = 0; i < 5; ++i)
    CHECK_THAT(found[i], Catch::Matchers::WithinAbs(expected[i], 100 * tolerance::rounding<T>(5)));
}

TEST_CASE("the angles of an orthogonal matrix are in pairs, and their cosines are its trace", "[linalg]") {
  const Tensor<double> vectors = normal_tensor<double>({4, 9}, 3);
  const auto transition = prepare<double>(Cwy{}, vectors);
  const Tensor<double> q = transition->materialize();
  const std::vector<double> angles = eigenvalue_angles<double>(q);
  REQUIRE(angles.size() == 9);
  CHECK(std::ranges::is_sorted(angles));
  double trace = 0, cosines = 0;
  for (Index i = 0; i < 9; ++i) {
    trace += q(i, i);
    cosines += std::cos(angles[static_cast<std::size_t>(i)]);
    CHECK_THAT(angles[static_cast<std::size_t>(i)] + angles[static_cast<std::size_t>(8 - i)],
               Catch::Matchers::WithinAbs(0, 100 * tolerance::rounding<double>(9)));
  }
  CHECK_THAT(cosines, Catch::Matchers::WithinAbs(trace, 100 * tolerance::rounding<double>(9)));
}

TEST_CASE("a matrix without eigenvalues is refused", "[linalg]") {
  CHECK_THROWS_AS(eigenvalue_angles<float>(Tensor<float>(Shape{4})), ShapeError);
  CHECK_THROWS_AS(eigenvalue_angles<float>(Tensor<float>(Shape{4, 3})), ShapeError);
  Tensor<float> odd(Shape{2, 2});
  odd(0, 1) = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(eigenvalue_angles<float>(odd), ValueError);
}

}  // namespace
}  // namespace orthornn::testing
