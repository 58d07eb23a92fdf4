#pragma once

#include <algorithm>
#include <cstdint>

#include "orthornn/core/random.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::testing {

/// Independent normal entries; the same numbers for float and double, but for rounding.
template <class T>
Tensor<T> normal_tensor(const Shape& shape, std::uint64_t seed, double deviation = 1) {
  Tensor<T> tensor(shape);
  RandomStream random(seed, RandomPurpose::validation);
  for (T& x : tensor) x = static_cast<T>(deviation * random.normal());
  return tensor;
}

/// Vectors [count, n] that are one normal vector plus `noise` times a normal one each.
template <class T>
Tensor<T> nearly_parallel_vectors(Index count, Index n, double noise, std::uint64_t seed) {
  const Tensor<double> common = normal_tensor<double>({n}, seed);
  Tensor<double> own = normal_tensor<double>({count, n}, seed + 1);
  Tensor<T> vectors({count, n});
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < n; ++j) vectors(i, j) = static_cast<T>(common(j) + noise * own(i, j));
  }
  return vectors;
}

template <class To, class From>
Tensor<To> cast(const From& from) {
  Tensor<To> to(from.shape());
  std::transform(from.begin(), from.end(), to.begin(), [](auto x) { return static_cast<To>(x); });
  return to;
}

}  // namespace orthornn::testing
