#pragma once
// What every measurement needs: a clock, the median of samples, numbers to compute with.

#include <algorithm>
#include <chrono>
#include <vector>

#include "orthornn/core/random.hpp"
#include "orthornn/core/tensor.hpp"

namespace orthornn::program {

/// Milliseconds that `work()` takes.
template <class Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Of at least one value; the mean of the two in the middle when their number is even.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// Standard normal numbers, the same for the same `stream`.
inline void fill_normal(TensorView<float> x, std::uint64_t stream) {
  RandomStream random(1, RandomPurpose::initialization, stream);
  for (float& value : x) value = static_cast<float>(random.normal());
}

}  // namespace orthornn::program
