#pragma once

#include <cmath>
#include <optional>
#include <vector>

namespace orthornn::program {

/// The power p of c x^p, whose logarithm is nearest to that of y by least squares. Nothing for fewer than
/// three points, and for numbers that are not above 0.
inline std::optional<double> power_of_growth(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  if (x.size() < 3) return std::nullopt;
  double mean_x = 0, mean_y = 0, rise = 0, run = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += std::log(x[i]) / count;
    mean_y += std::log(y[i]) / count;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    rise += (std::log(x[i]) - mean_x) * (std::log(y[i]) - mean_y);
    run += (std::log(x[i]) - mean_x) * (std::log(x[i]) - mean_x);
  }
  const double power = rise / run;
  return std::isfinite(power) ? std::optional(power) : std::nullopt;
}

}  // namespace orthornn::program
