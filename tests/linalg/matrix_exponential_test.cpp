// exp(A) and its derivative against the series in long double.

#include "linalg/matrix_exponential.hpp"

#include <Eigen/Core>
#include <cmath>
#include <initializer_list>

#include "linalg/eigen_map.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"
#include "support/random_tensor.hpp"
#include "support/tolerances.hpp"

namespace orthornn::testing {
namespace {

using LongMatrix = Eigen::Matrix<long double, Eigen::Dynamic, Eigen::Dynamic>;

/// The series of A / 2^10, squared 10 times: for |A| <= 100, 20 terms are more than long double can tell, and
/// the squarings leave 2^-54 of its 2^-64.
LongMatrix exponential(const LongMatrix& a) {
  const LongMatrix scaled = a / 1024.0L;
  LongMatrix sum = LongMatrix::Identity(a.rows(), a.cols()), term = sum;
  for (int i = 1; i <= 20; ++i) {
    term = term * scaled / static_cast<long double>(i);
    sum += term;
  }
  for (int i = 0; i < 10; ++i) sum = (sum * sum).eval();
  return sum;
}

Tensor<double> tensor_of(const LongMatrix& m) {
  Tensor<double> result({m.cols(), m.rows()});
  eigen(columns_of(result)) = m.cast<double>();
  return result;
}

/// A with |A|_1 near `norm`, skew-symmetric or not.
template <class T>
Tensor<T> generator(Index n, double norm, bool skew) {
  const Tensor<double> x = normal_tensor<double>({n, n}, 1);
  Tensor<double> a = x.copy();
  for (Index i = 0; i < n && skew; ++i) {
    for (Index j = 0; j < n; ++j) a(i, j) = x(i, j) - x(j, i);
  }
  const double found = eigen(columns_of(std::as_const(a))).cwiseAbs().colwise().sum().maxCoeff();
  for (double& value : a) value *= found == 0 ? 0 : norm / found;
  return cast<T>(a);
}

template <class T>
void check_exponential(Index n, double norm, bool skew) {
  CAPTURE(n, norm, skew);
  const Tensor<T> a = generator<T>(n, norm, skew), e = normal_tensor<T>({n, n}, 2);
  const LongMatrix exact_a = eigen(columns_of(a)).template cast<long double>();
  const LongMatrix exact_e = eigen(columns_of(e)).template cast<long double>();
  // exp of [A E; 0 A] has the derivative in its upper right block.
  LongMatrix both = LongMatrix::Zero(2 * n, 2 * n);
  both.topLeftCorner(n, n) = exact_a;
  both.bottomRightCorner(n, n) = exact_a;
  both.topRightCorner(n, n) = exact_e;
  const LongMatrix expected = exponential(both);

  ExponentialOf<T> exponential_of(n);
  Tensor<T> value({n, n}), derivative({n, n});
  exponential_of.value(columns_of(a), columns_of(value));
  // Each squaring doubles the error.
  const double bound = std::ldexp(tolerance::rounding<T>(n), exponential_of.squarings());
  // The only number is zero where there is one and it is skew-symmetric.
  CHECK((exponential_of.squarings() > 0) == (norm > 0.8 && !(skew && n == 1)));
  CHECK(relative_error(value, tensor_of(expected.topLeftCorner(n, n))) <= bound);
  exponential_of.derivative(columns_of(a), columns_of(e), columns_of(derivative));
  CHECK(relative_error(derivative, tensor_of(expected.topRightCorner(n, n))) <= bound);
  // And again, after the derivative has used the same memory.
  Tensor<T> again = a.copy();
  exponential_of.value(columns_of(std::as_const(again)), columns_of(again));
  CHECK(equal(again, value));
}

TEMPLATE_TEST_CASE("the exponential and its derivative are those of the series", "[linalg]", float, double) {
  const Index n = GENERATE(1, 2, 7, 20);
  for (const double norm : {0.0, 1e-8, 0.1, 0.79, 0.81, 1.0, 10.0, 100.0})
    check_exponential<TestType>(n, norm, true);
  // exp(100) is not a float.
  for (const double norm : {0.1, 1.0, 10.0}) check_exponential<TestType>(n, norm, false);
}

TEST_CASE("the exponential of a rotation's generator is the rotation", "[linalg]") {
  for (const double angle : {0.0, 1e-10, 0.5, 3.0, 100.0}) {
    CAPTURE(angle);
    Tensor<double> a({2, 2}), q({2, 2}), expected({2, 2});
    a(0, 1) = angle;
    a(1, 0) = -angle;
    expected(0, 0) = expected(1, 1) = std::cos(angle);
    expected(0, 1) = std::sin(angle);
    expected(1, 0) = -std::sin(angle);
    ExponentialOf<double> exponential_of(2);
    exponential_of.value(columns_of(std::as_const(a)), columns_of(q));
    CHECK(relative_error(q, expected) <= (1 + angle) * tolerance::rounding<double>(2));
  }
}

TEST_CASE("the exponential at zero is the identity and its derivative the direction, exactly", "[linalg]") {
  const Tensor<double> zero({5, 5}), e = normal_tensor<double>({5, 5}, 3);
  Tensor<double> value({5, 5}), derivative({5, 5});
  ExponentialOf<double> exponential_of(5);
  exponential_of.value(columns_of(zero), columns_of(value));
  exponential_of.derivative(columns_of(zero), columns_of(e), columns_of(derivative));
  CHECK(equal(value, identity_matrix<double>(5)));
  CHECK(equal(derivative, e));
}

}  // namespace
}  // namespace orthornn::testing
