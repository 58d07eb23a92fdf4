#include "linalg/matrix_exponential.hpp"

#include <array>
#include <cassert>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "core/for_each.hpp"
#include "cuda/linalg/elementwise.hpp"
#include "cuda/linalg/matrix_exponential.hpp"
#include "linalg/eigen_map.hpp"
#include "linalg/gemm.hpp"
#include "pointwise/matrices.hpp"

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

template <class T>
double one_norm(MatrixView<const T> a) {
  if constexpr (has_cuda_bodies) {
    if (a.device.is_cuda()) return cuda::one_norm<T>(a);
  }
  return static_cast<double>(eigen(a).cwiseAbs().colwise().sum().maxCoeff());
}

/// to <- scale * from, matrices without gaps between columns, as in `add_terms`.
template <class T>
void assign_scaled(T scale, MatrixView<const T> from, MatrixView<T> to) {
  assert(from.stride == from.rows && to.stride == to.rows);
  for_each(to.device, to.rows * to.cols, pointwise::AssignScaled<T>{scale, from.data, to.data});
}

template <class T>
void assign(MatrixView<const T> from, MatrixView<T> to) {
  if constexpr (has_cuda_bodies) {
    if (to.device.is_cuda()) return cuda::copy_matrix<T>(from, to);
  }
  eigen(to) = eigen(from);
}

/// to += c_0 I + c_1 power_1 + c_2 power_2 + c_3 power_3, or without c_0 I.
template <class T>
void add_terms(const std::array<T, 4>& c, const std::array<MatrixView<const T>, 3>& powers,
               bool with_identity, MatrixView<T> to) {
  assert(to.stride == to.rows);
  for_each(to.device, to.rows * to.cols,
           pointwise::AddTerms<T>{.c0 = with_identity ? c[0] : T{0},
                                  .c1 = c[1],
                                  .c2 = c[2],
                                  .c3 = c[3],
                                  .first = powers[0].data,
                                  .second = powers[1].data,
                                  .third = powers[2].data,
                                  .to = to.data,
                                  .rows = to.rows});
}

}  // namespace

template <class T>
ExponentialOf<T>::ExponentialOf(Index n, Device device)
    : n_(n), memory_(Shape{2 * workspaces, n, n}, device) {}

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
  const double norm = one_norm<T>(a.value);
  squarings_ = norm > largest_norm ? static_cast<int>(std::ceil(std::log2(norm / largest_norm))) : 0;
  // A scale by a power of two is exact.
  const T scale = static_cast<T>(std::ldexp(1.0, -squarings_));

  // 1. Powers of the scaled matrix up to the fourth.
  std::array<Dual, 5> power{};
  for (std::size_t i = 1; i < power.size(); ++i)
    power[i] = workspace(static_cast<Index>(i) - 1, with_derivative);
  assign_scaled<T>(scale, a.value, power[1].value);
  if (with_derivative) assign_scaled<T>(scale, a.derivative, power[1].derivative);
  multiply(power[1], power[1], power[2]);
  multiply(power[2], power[1], power[3]);
  multiply(power[2], power[2], power[4]);

  // 2. Horner's rule in the fourth power, four coefficients a turn, from the highest: A^16/16! + ... + I.
  Dual sum = workspace(4, with_derivative);
  Dual next = workspace(5, with_derivative);
  const auto add_terms_from = [&](std::size_t first, const Dual& to) {
    std::array<T, 4> c{};
    for (std::size_t i = 0; i < 4; ++i) c[i] = static_cast<T>(inverse_factorials[first + i]);
    add_terms<T>(c, {power[1].value, power[2].value, power[3].value}, true, to.value);
    if (with_derivative) {
      add_terms<T>(c, {power[1].derivative, power[2].derivative, power[3].derivative}, false, to.derivative);
    }
  };
  const T highest = static_cast<T>(inverse_factorials[16]);
  assign_scaled<T>(highest, power[4].value, sum.value);
  if (with_derivative) assign_scaled<T>(highest, power[4].derivative, sum.derivative);
  add_terms_from(12, sum);
  for (const std::size_t first : {8, 4, 0}) {
    multiply(sum, power[4], next);
    std::swap(sum, next);
    add_terms_from(first, sum);
  }

  // 3. exp(A) = exp(A / 2^s)^(2^s).
  for (int i = 0; i < squarings_; ++i) {
    multiply(sum, sum, next);
    std::swap(sum, next);
  }
  assign<T>(sum.value, result.value);
  if (with_derivative) assign<T>(sum.derivative, result.derivative);
}

template <class T>
void ExponentialOf<T>::value(MatrixView<const T> a, MatrixView<T> result) {
  assign(a, result);
  run({result, {}}, {result, {}});
}

template <class T>
void ExponentialOf<T>::derivative(MatrixView<const T> a, MatrixView<const T> e, MatrixView<T> result) {
  const Dual input = workspace(5, true);
  assign(a, input.value);
  assign(e, input.derivative);
  run(input, {input.value, result});
}

template class ExponentialOf<float>;
template class ExponentialOf<double>;

}  // namespace orthornn
