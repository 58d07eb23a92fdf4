#include "linalg/matrix_exponential.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"

namespace orthornn {
namespace {

constexpr double largest_norm = 0.8;
constexpr Index workspaces = 6;

/// 1/0!, 1/1!, ... 1/16!
constexpr std::array<double, 17> inverse_factorials = [] {
  std::array<double, 17> c{1};
  for (std::size_t i = 1; i < c.size(); ++i) c[i] = c[i - 1] / static_cast<double>(i);
  return c;
}();

}  // namespace

template <class T>
ExponentialOf<T>::ExponentialOf(Index n) : n_(n), memory_(Shape{2 * workspaces, n, n}) {}

template <class T>
typename ExponentialOf<T>::Dual ExponentialOf<T>::workspace(Index i, bool with_derivative) {
  Dual dual{columns_of(memory_.view()[2 * i]), {}};
  if (with_derivative) dual.derivative = columns_of(memory_.view()[2 * i + 1]);
  return dual;
}

template <class T>
void ExponentialOf<T>::multiply(const Dual& a, const Dual& b, const Dual& product) {
  gemm<T>(1, a.value, b.value, 0, product.value);
  if (product.derivative.data == nullptr) return;
  gemm<T>(1, a.derivative, b.value, 0, product.derivative);
  gemm<T>(1, a.value, b.derivative, 1, product.derivative);
}

template <class T>
void ExponentialOf<T>::run(const Dual& a, const Dual& result) {
  const bool with_derivative = a.derivative.data != nullptr;
  const double norm = static_cast<double>(eigen(a.value).cwiseAbs().colwise().sum().maxCoeff());
  squarings_ = norm > largest_norm ? static_cast<int>(std::ceil(std::log2(norm / largest_norm))) : 0;
  // A scale by a power of two is exact.
  const T scale = static_cast<T>(std::ldexp(1.0, -squarings_));

  // 1. Powers of the scaled matrix up to the fourth.
  std::array<Dual, 5> power{};
  for (std::size_t i = 1; i < power.size(); ++i)
    power[i] = workspace(static_cast<Index>(i) - 1, with_derivative);
  eigen(power[1].value) = scale * eigen(a.value);
  if (with_derivative) eigen(power[1].derivative) = scale * eigen(a.derivative);
  multiply(power[1], power[1], power[2]);
  multiply(power[2], power[1], power[3]);
  multiply(power[2], power[2], power[4]);

  // 2. Horner's rule in the fourth power, four coefficients a turn, from the highest: A^16/16! + ... + I.
  Dual sum = workspace(4, with_derivative);
  Dual next = workspace(5, with_derivative);
  const auto add_terms = [&](std::size_t first, const Dual& to) {
    for (std::size_t i = 0; i < 4; ++i) {
      const T c = static_cast<T>(inverse_factorials[first + i]);
      if (i == 0) {
        eigen(to.value).diagonal().array() += c;
      } else {
        eigen(to.value) += c * eigen(power[i].value);
        if (with_derivative) eigen(to.derivative) += c * eigen(power[i].derivative);
      }
    }
  };
  eigen(sum.value) = static_cast<T>(inverse_factorials[16]) * eigen(power[4].value);
  if (with_derivative)
    eigen(sum.derivative) = static_cast<T>(inverse_factorials[16]) * eigen(power[4].derivative);
  add_terms(12, sum);
  for (const std::size_t first : {8, 4, 0}) {
    multiply(sum, power[4], next);
    std::swap(sum, next);
    add_terms(first, sum);
  }

  // 3. exp(A) = exp(A / 2^s)^(2^s).
  for (int i = 0; i < squarings_; ++i) {
    multiply(sum, sum, next);
    std::swap(sum, next);
  }
  eigen(result.value) = eigen(sum.value);
  if (with_derivative) eigen(result.derivative) = eigen(sum.derivative);
}

template <class T>
void ExponentialOf<T>::value(MatrixView<const T> a, MatrixView<T> result) {
  eigen(result) = eigen(a);
  run({result, {}}, {result, {}});
}

template <class T>
void ExponentialOf<T>::derivative(MatrixView<const T> a, MatrixView<const T> e, MatrixView<T> result) {
  const Dual input = workspace(5, true);
  eigen(input.value) = eigen(a);
  eigen(input.derivative) = eigen(e);
  run(input, {input.value, result});
}

template class ExponentialOf<float>;
template class ExponentialOf<double>;

}  // namespace orthornn
