#pragma once
// The formulas as one would write them on paper: one entry and one reflection at a time, in long double.

#include <algorithm>
#include <cmath>
#include <vector>

#include "orthornn/core/tensor.hpp"
#include "orthornn/rollouts/activation.hpp"

namespace orthornn::testing {

template <class T>
Tensor<T> identity_matrix(Index n) {
  Tensor<T> q(Shape{n, n});
  for (Index i = 0; i < n; ++i) q(i, i) = 1;
  return q;
}

/// Q = H(v1) ... H(vL) for v [L, N].
template <class V>
Tensor<double> product_of_reflections(const V& v) {
  const Index l = v.shape()[0], n = v.shape()[1];
  std::vector<long double> q(static_cast<std::size_t>(n * n), 0.0L);
  const auto at = [&](Index i, Index j) -> long double& { return q[static_cast<std::size_t>(i * n + j)]; };
  for (Index i = 0; i < n; ++i) at(i, i) = 1;
  for (Index r = l - 1; r >= 0; --r) {
    long double squares = 0;
    for (Index i = 0; i < n; ++i) squares += static_cast<long double>(v(r, i)) * v(r, i);
    for (Index j = 0; j < n; ++j) {
      long double projection = 0;
      for (Index i = 0; i < n; ++i) projection += v(r, i) * at(i, j);
      for (Index i = 0; i < n; ++i) at(i, j) -= 2 * projection * v(r, i) / squares;
    }
  }
  Tensor<double> result({n, n});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) result(i, j) = static_cast<double>(at(i, j));
  }
  return result;
}

/// a b for matrices in C order.
template <class A, class B>
Tensor<double> matrix_product(const A& a, const B& b) {
  Tensor<double> product({a.shape()[0], b.shape()[1]});
  for (Index i = 0; i < a.shape()[0]; ++i) {
    for (Index j = 0; j < b.shape()[1]; ++j) {
      long double sum = 0;
      for (Index k = 0; k < a.shape()[1]; ++k) sum += static_cast<long double>(a(i, k)) * b(k, j);
      product(i, j) = static_cast<double>(sum);
    }
  }
  return product;
}

template <class T>
Tensor<T> transpose_of(const Tensor<T>& a) {
  Tensor<T> result({a.shape()[1], a.shape()[0]});
  for (Index i = 0; i < a.shape()[0]; ++i) {
    for (Index j = 0; j < a.shape()[1]; ++j) result(j, i) = a(i, j);
  }
  return result;
}

/// |I - Q^T Q|_1, the largest column sum, in double.
template <class T>
double orthogonality_error_in_1_norm(const Tensor<T>& q) {
  const Index n = q.shape()[0], m = q.shape()[1];
  double largest = 0;
  for (Index j = 0; j < m; ++j) {
    std::vector<double> column(static_cast<std::size_t>(m), 0.0);
    for (Index i = 0; i < n; ++i) {
      const T* row = q.data() + i * m;
      for (Index k = 0; k < m; ++k)
        column[static_cast<std::size_t>(k)] += static_cast<double>(row[j]) * row[k];
    }
    double sum = 0;
    for (Index k = 0; k < m; ++k) sum += std::abs(column[static_cast<std::size_t>(k)] - (k == j ? 1.0 : 0.0));
    largest = std::max(largest, sum);
  }
  return largest;
}

/// h from its argument a and the bias m of modrelu.
inline double sigma(Activation activation, double a, double m) {
  switch (activation) {
    case Activation::tanh:
      return std::tanh(a);
    case Activation::relu:
      return std::max(a, 0.0);
    case Activation::abs:
      return std::abs(a);
    case Activation::modrelu:
      return a == 0 ? 0 : std::copysign(std::max(std::abs(a) + m, 0.0), a);
    case Activation::identity:
      return a;
  }
  return NAN;
}

}  // namespace orthornn::testing
