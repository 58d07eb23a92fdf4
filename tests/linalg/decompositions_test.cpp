// The inverse of a Cholesky factor, and eigenvectors of symmetric matrices, on any device.

#include "linalg/decompositions.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/gpu.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

/// I + X X^T / n, whose condition is below 10.
template <class T>
Tensor<T> positive_matrix(Index n) {
  const Tensor<double> x = normal_tensor<double>({n, n}, 1, 1 / std::sqrt(double(n)));
  const Tensor<double> product = matrix_product(x, transpose_of(x));
  Tensor<T> result({n, n});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) result(i, j) = static_cast<T>(product(i, j) + (i == j ? 1 : 0));
  }
  return result;
}

template <class T>
Tensor<T> inverse_factor(const Tensor<T>& a, Device device) {
  Tensor<T> result = a.copy(device), workspace = normal_tensor<T>(a.shape(), 2).copy(device);
  invert_cholesky_factor<T>(columns_of(result), columns_of(workspace));
  return result.copy(Device::cpu());
}

template <class T>
void check_inverse_factor(Device device) {
  // Around the borders of the recursion.
  for (const Index n : {1, 2, 7, 32, 33, 65, 130, 193}) {
    CAPTURE(n);
    const Tensor<T> a = positive_matrix<T>(n);
    Tensor<T> read = a.copy();
    // The column-major upper triangle is C order's lower one; nothing else is read.
    for (Index i = 0; i < n; ++i) {
      for (Index j = i + 1; j < n; ++j) read(i, j) = T(NAN);
    }
    const Tensor<T> w = inverse_factor(read, device);  // R^-T in C order, as R^-1 is column-major
    bool is_triangular = true;
    for (Index i = 0; i < n; ++i) {
      CHECK(w(i, i) > 0);
      for (Index j = i + 1; j < n; ++j) is_triangular = is_triangular && w(i, j) == 0;
    }
    CHECK(is_triangular);
    // R^-T a R^-1 = I.
    const Tensor<double> product = matrix_product(matrix_product(w, a), transpose_of(w));
    CHECK(relative_error(product, identity_matrix<double>(n)) <= 10 * tolerance::rounding<T>(n));
  }
  Tensor<T> indefinite = positive_matrix<T>(40);
  indefinite(20, 20) = -1;
  const Tensor<T> w = inverse_factor(indefinite, device);
  CHECK_FALSE(std::ranges::all_of(w, [](T x) { return std::isfinite(x); }));
}

void check_eigenvectors(Device device) {
  for (const Index n : {1, 2, 17, 64, 130}) {
    CAPTURE(n);
    const Tensor<double> a = positive_matrix<double>(n);
    Tensor<double> e = a.copy(device), values(Shape{n}, device);
    SymmetricEigenvectors().replace(columns_of(e), values.data());
    const Tensor<double> rows = e.copy(Device::cpu()), found = values.copy(Device::cpu());
    for (Index i = 1; i < n; ++i) CHECK(found(i) >= found(i - 1));
    // Row i in C order is eigenvector i.
    CHECK(relative_error(matrix_product(rows, transpose_of(rows)), identity_matrix<double>(n)) <=
          tolerance::rounding<double>(n));
    Tensor<double> scaled = rows.copy();
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) scaled(i, j) *= found(i);
    }
    CHECK(relative_error(matrix_product(rows, a), scaled) <= 10 * tolerance::rounding<double>(n));
  }
}

TEMPLATE_TEST_CASE("the inverse of a Cholesky factor", "[linalg]", float, double) {
  check_inverse_factor<TestType>(Device::cpu());
}

TEST_CASE("eigenvectors of a symmetric matrix", "[linalg]") { check_eigenvectors(Device::cpu()); }

TEMPLATE_TEST_CASE("the inverse of a Cholesky factor on a GPU", "[linalg][cuda]", float, double) {
  const auto device = gpu();
  if (device && has_decompositions(*device)) check_inverse_factor<TestType>(*device);
}

TEST_CASE("eigenvectors of a symmetric matrix on a GPU", "[linalg][cuda]") {
  const auto device = gpu();
  if (device && has_decompositions(*device)) check_eigenvectors(*device);
}

}  // namespace
}  // namespace orthornn::testing
