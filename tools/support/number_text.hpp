#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "orthornn/tasks/metric.hpp"

namespace orthornn::program {

/// Three or four digits, without an exponent for numbers of common size: 0.00123, 1.234, 12.34, 1234.
inline std::string short_number(double value) {
  const double size = std::abs(value);
  if (size < 1 || size >= 1e12) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}

/// "1:02:03" or "2:03"
inline std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// ", 97.00 % right, 81.50 % right sequences": the metrics of a task; "" where it has none.
inline std::string metrics_text(const Evaluation& evaluation) {
  std::string text;
  for (const auto& [metric, value] : evaluation.metrics) {
    text += metric.is_share ? fmt::format(", {:.2f} % {}", 100 * value, metric.title)
                            : fmt::format(", {} {:.4g}", metric.title, value);
  }
  return text;
}

}  // namespace orthornn::program
