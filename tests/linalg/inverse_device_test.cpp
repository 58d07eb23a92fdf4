// The general inverse by cuSOLVER, and the triangular one of the S factor.

#include <cmath>
#include <initializer_list>
#include <limits>

#include "core/back_end.hpp"
#include "cuda/linalg/inverse.hpp"
#include "linalg/inverse.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

template <class T>
Tensor<T> inverted(const Tensor<T>& a, Device device) {
  const Index n = a.shape()[0];
  Tensor<T> result = a.copy(device), workspace = normal_tensor<T>({n, n}, 1).copy(device);
  Tensor<std::int64_t> pivots(Shape{n}, device);
  invert_general(columns_of(result), columns_of(workspace), pivots.data());
  return result.copy(Device::cpu());
}

TEMPLATE_TEST_CASE("the inverse of a general matrix on a GPU", "[linalg][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  for (const Index n : {1, 2, 17, 64, 100, 193}) {
    CAPTURE(n);
    const Tensor<T> x = normal_tensor<T>({n, n}, 2);
    // I + A for a skew-symmetric A, as in the Cayley transform, and a matrix that needs its pivots.
    Tensor<T> cayley = identity_matrix<T>(n), permuted({n, n});
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) cayley(i, j) += x(i, j) - x(j, i);
      permuted(i, (i + 1) % n) = T(i + 1);
    }
    for (const Tensor<T>* a : {&cayley, &permuted}) {
      const Tensor<T> inverse = inverted(*a, *device);
      const double condition = frobenius_norm(*a) * frobenius_norm(inverse) / std::sqrt(double(n));
      CHECK(relative_error(matrix_product(inverse, *a), identity_matrix<double>(n)) <=
            condition * tolerance::rounding<T>(n));
    }
  }
}

TEST_CASE("the inverse of a singular matrix on a GPU is not finite", "[linalg][cuda]") {
  const auto device = gpu();
  if (!device) return;
  for (const Index n : {1, 5, 40}) {
    CAPTURE(n);
    Tensor<double> a = normal_tensor<double>({n, n}, 3);
    for (Index i = 0; i < n; ++i) a(i, n / 2) = 0;
    bool is_finite = true;
    for (const double x : inverted(a, *device)) is_finite = is_finite && std::isfinite(x);
    CHECK_FALSE(is_finite);
  }
}

TEMPLATE_TEST_CASE("the triangular inverse on a GPU is computed in double", "[linalg][cuda]", float, double) {
  using T = TestType;
  const auto device = gpu();
  if (!device) return;
  if constexpr (!has_cuda_bodies) {
    std::printf("skipped: the tests were compiled without ORTHORNN_WITH_CUDA\n");
  } else {
    for (const Index n : {1, 2, 17, 63, 64, 65, 128, 129, 200, 300}) {
      CAPTURE(n);
      // S of nearly parallel vectors; column-major with a gap, and nothing to be read on or below the
      // diagonal.
      const Tensor<double> noise = normal_tensor<double>({n, n}, 4, 0.01);
      Tensor<T> a({n, n + 3});
      Tensor<double> expected({n, n});
      for (T& x : a) x = std::numeric_limits<T>::quiet_NaN();
      for (Index j = 0; j < n; ++j) {
        for (Index i = 0; i < j; ++i) expected(j, i) = a(j, i) = static_cast<T>(1 - std::abs(noise(j, i)));
        expected(j, j) = 0.5;
      }
      invert_upper_triangular(columns_of(expected));
      Tensor<T> there = a.copy(*device);
      cuda::invert_upper_triangular<T>(columns_of(there).block(0, 0, n, n), 0.5);
      const Tensor<T> host = there.copy(Device::cpu());
      Tensor<T> found({n, n});
      for (Index j = 0; j < n; ++j) {
        for (Index i = 0; i < n; ++i) found(j, i) = host(j, i);
        for (Index i = n; i < n + 3; ++i) REQUIRE(std::isnan(host(j, i)));
      }
      // Rounded to T once; in double, two orders of long sums.
      const double once = tolerance::epsilon<float>;
      CHECK(relative_error(found, expected) <= (std::is_same_v<T, float> ? once : 1e-12));
    }
  }
}

}  // namespace
}  // namespace orthornn::testing
