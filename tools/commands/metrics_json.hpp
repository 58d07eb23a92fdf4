#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

#include "orthornn/tasks/metric.hpp"

namespace orthornn::program {

/// Adds the metrics to an object, each under its name. One that counted nothing is left out: JSON has no NaN.
inline void add_metrics(nlohmann::ordered_json& json, const Evaluation& evaluation) {
  for (const auto& [metric, value] : evaluation.metrics) {
    if (std::isfinite(value)) json[metric.name] = value;
  }
}

}  // namespace orthornn::program
