#include "orthornn/delta/rotation_angle.hpp"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "orthornn/core/error.hpp"
#include "orthornn/delta/exact_factors.hpp"
#include "support/catch.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

std::optional<double> angle_of(const Tensor<double>& keys, const Tensor<double>& betas) {
  return rotation_angle<double>({.key = keys.view()[0], .beta = betas(0)},
                                {.key = keys.view()[1], .beta = betas(1)});
}

}  // namespace

TEST_CASE("the angle of a rotation is the one it was made of", "[delta][theory]") {
  Tensor<double> keys(Shape{2, 2}), betas(Shape{2});
  for (const double degrees : {1.0, 60.0, 90.0, 120.0, 179.0}) {
    CAPTURE(degrees);
    const double angle = degrees * std::numbers::pi / 180;
    for (const double turn : {angle, -angle}) {
      rotation_factors<double>(turn, keys, betas);
      const std::optional<double> found = angle_of(keys, betas);
      REQUIRE(found);
      // At one degree the cosine loses four digits of the angle.
      CHECK(std::abs(*found - angle) < 1e4 * tolerance::epsilon<double>);
      // Keys of norm 3 with step sizes smaller by a factor of 9 are the same factors.
      for (double& k : keys) k *= 3;
      for (double& beta : betas) beta /= 9;
      CHECK(std::abs(angle_of(keys, betas).value_or(0) - angle) < 1e4 * tolerance::epsilon<double>);
    }
  }
}

TEST_CASE("products that turn nothing have no angle", "[delta][theory]") {
  Tensor<double> keys(Shape{2, 2}), betas(Shape{2});
  rotation_factors<double>(std::numbers::pi / 2, keys, betas);
  for (const double none : {0.0, 0.5, 1.0}) {
    CAPTURE(none);
    betas(0) = none;  // up to 1 a factor projects
    CHECK_FALSE(angle_of(keys, betas));
    std::swap(betas(0), betas(1));
    CHECK_FALSE(angle_of(keys, betas));
    betas(0) = 2;
  }
  betas(1) = 2;
  keys(1, 0) = keys(1, 1) = 0;
  CHECK_FALSE(angle_of(keys, betas));
  keys(0, 0) = keys(1, 0) = 1;  // the same reflection twice
  keys(0, 1) = keys(1, 1) = 0;
  CHECK_FALSE(angle_of(keys, betas));
  const Tensor<double> longer(Shape{3});
  CHECK_THROWS_AS(rotation_angle<double>({keys.view()[0], 2}, {longer, 2}), ShapeError);
}

TEST_CASE("the angle is that of the complex eigenvalues of the product", "[delta][theory]") {
  using Matrix = Eigen::MatrixXd;
  RandomStream random(4, RandomPurpose::validation);
  int complex_ones = 0;
  for (int i = 0; i < 500; ++i) {
    const Index size = 2 + i % 3;
    const Tensor<double> keys = normal_tensor<double>({2, size}, static_cast<std::uint64_t>(i));
    Tensor<double> betas(Shape{2});
    Matrix product = Matrix::Identity(size, size);
    for (Index j = 0; j < 2; ++j) {
      const Eigen::Map<const Eigen::VectorXd> key(keys.view()[j].data(), size);
      betas(j) = random.uniform(0, 2) / key.squaredNorm();
      product = (Matrix::Identity(size, size) - betas(j) * key * key.transpose()) * product;
    }
    const Eigen::VectorXcd values = product.eigenvalues();
    const auto largest = *std::max_element(values.begin(), values.end(),
                                           [](const auto& a, const auto& b) { return a.imag() < b.imag(); });
    const std::optional<double> found = angle_of(keys, betas);
    // Rounding decides where two eigenvalues meet, and there the angle has half of the digits.
    if (largest.imag() < 1e-6) {
      CHECK(found.value_or(0) < 1e-5);
      continue;
    }
    ++complex_ones;
    REQUIRE(found);
    CHECK(std::abs(*found - std::arg(largest)) < 1e-8);
  }
  CHECK(complex_ones > 50);
}
