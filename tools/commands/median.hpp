#pragma once

#include <algorithm>
#include <vector>

namespace orthornn::program {

/// Of at least one value; the mean of the two in the middle when their number is even.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace orthornn::program
