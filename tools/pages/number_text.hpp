#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace orthornn::program {

/// Three or four digits, without an exponent for numbers of common size: 0.00123, 1.234, 12.34, 1234.
inline std::string short_number(double value) {
  const double size = std::abs(value);
  if (size < 1 || size >= 1e12) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}

}  // namespace orthornn::program
