#pragma once
// Numbers to compute with, equal in every run.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>

#include "orthornn/core/random.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::program {

/// Standard normal numbers on any device, each changed by `change`; a `stream` has its own numbers. They come
/// again after some millions: to draw a GPU's share of them would take longer than all that is timed.
template <class T = float, class Change = std::identity>
Tensor<T> normal_tensor(const Shape& shape, Device device, std::uint64_t stream, const Change& change = {}) {
  constexpr Index most = Index{1} << 22;
  Tensor<T> result(shape, device);
  Tensor<T> drawn(Shape{std::min(result.size(), most)});
  RandomStream random(1, RandomPurpose::initialization, stream);
  for (T& number : drawn) number = static_cast<T>(change(static_cast<float>(random.normal())));
  const TensorView<T> all = result.view().reshaped({result.size()});
  for (Index first = 0; first < result.size(); first += most) {
    const Index count = std::min(most, result.size() - first);
    copy<T>(drawn.view().slice(0, count), all.slice(first, count));
  }
  return result;
}

/// A tensor of one number on any device.
template <class T>
Tensor<T> filled_tensor(const Shape& shape, Device device, T number) {
  Tensor<T> result(shape);
  std::fill(result.begin(), result.end(), number);
  return result.copy(device);
}

/// Zeros of the same shape on the same device.
template <class T>
Tensor<T> zeros_like(const Tensor<T>& x) {
  return Tensor<T>(x.shape(), x.device());
}

/// Vectors [.., D] of norm 1 on any device.
template <class T>
Tensor<T> unit_vectors(const Shape& shape, Device device, std::uint64_t stream) {
  Tensor<T> result = normal_tensor<T>(shape, Device::cpu(), stream);
  const Index size = shape[-1];
  for (T* x = result.begin(); x != result.end(); x += size) {
    const T norm = std::sqrt(std::inner_product(x, x + size, x, T{0}));
    std::transform(x, x + size, x, [norm](T number) { return number / norm; });
  }
  return result.copy(device);
}

}  // namespace orthornn::program
