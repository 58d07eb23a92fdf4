#pragma once
// What every measurement needs: a clock, how often to use it, numbers to compute with.

#include <algorithm>
#include <chrono>

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

}  // namespace orthornn::program
