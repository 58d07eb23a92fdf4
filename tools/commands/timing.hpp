#pragma once
// What every measurement needs: a clock, how often to use it, numbers to compute with.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>

#include "commands/median.hpp"
#include "orthornn/core/device.hpp"
#include "orthornn/core/random.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::program {

/// Milliseconds until the device has done what `work()` starts there, and all that was started before is
/// done.
template <class Work>
double milliseconds(Device device, const Work& work) {
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize(device);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Runs before those that count: the first takes memory and warms the caches; on a GPU the next are recorded.
inline int warm_up_runs(Device device) { return device.is_cuda() ? 3 : 1; }

/// Samples that are taken unless the user says how many.
inline int default_samples(Device device) { return device.is_cuda() ? 20 : 5; }

/// Standard normal numbers on any device, the same for the same `stream`. They come again after some
/// millions: to draw a GPU's share of them would take longer than all that is timed.
inline void fill_normal(TensorView<float> x, std::uint64_t stream) {
  constexpr Index most = Index{1} << 22;
  Tensor<float> drawn(Shape{std::min(x.size(), most)});
  RandomStream random(1, RandomPurpose::initialization, stream);
  for (float& value : drawn) value = static_cast<float>(random.normal());
  const TensorView<float> all = x.reshaped({x.size()});
  for (Index first = 0; first < x.size(); first += most) {
    const Index count = std::min(most, x.size() - first);
    copy<float>(drawn.view().slice(0, count), all.slice(first, count));
  }
}

/// A tensor of the same numbers, each of them changed.
template <class T, class Change = std::identity>
Tensor<T> normal_tensor(const Shape& shape, Device device, std::uint64_t stream, const Change& change = {}) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Change, std::identity>) {
    Tensor<float> result(shape, device);
    fill_normal(result, stream);
    return result;
  } else {
    Tensor<float> drawn(shape);
    fill_normal(drawn, stream);
    Tensor<T> result(shape);
    std::transform(drawn.begin(), drawn.end(), result.begin(),
                   [&](float number) { return static_cast<T>(change(number)); });
    return result.copy(device);
  }
}

/// A tensor of one number on any device.
template <class T>
Tensor<T> filled_tensor(const Shape& shape, Device device, T number) {
  Tensor<T> result(shape);
  std::fill(result.begin(), result.end(), number);
  return result.copy(device);
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
