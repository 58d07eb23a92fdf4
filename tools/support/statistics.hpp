#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace orthornn::program {

/// Mean of at least one value.
inline double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Standard deviation of the population that the values are a sample of; 0 for one value.
inline double deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double square = 0;
  for (const double value : values) square += (value - middle) * (value - middle);
  return std::sqrt(square / std::max(static_cast<double>(values.size()) - 1, 1.0));
}

/// Median of at least one value; the mean of the two in the middle when their number is even.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace orthornn::program
