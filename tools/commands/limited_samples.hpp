#pragma once
// Samples that are taken until a time limit.

#include <functional>
#include <nlohmann/json.hpp>

#include "commands/measured.hpp"

namespace orthornn::program {

struct LimitedSamples : Samples {
  /// False where warming up took the whole time limit, and its last run is what was measured.
  bool warmed_up = true;

  void add_to(nlohmann::ordered_json& json) const {
    Samples::add_to(json);
    json["warmed_up"] = warmed_up;
  }
};

/// Runs after those that warm up; after `limit` seconds none is begun, but one is measured in any case.
LimitedSamples take_samples(Device device, const std::function<Sample()>& run, int samples, double limit);

}  // namespace orthornn::program
