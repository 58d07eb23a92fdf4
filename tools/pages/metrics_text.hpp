#pragma once

#include <fmt/format.h>

#include <string>

#include "orthornn/tasks/metric.hpp"

namespace orthornn::program {

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
