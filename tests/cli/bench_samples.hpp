#pragma once
// What the JSON of every measurement holds, whatever was measured.

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"

namespace orthornn::testing {

/// Three samples of forward, backward and both together, and the medians of each.
inline void check_three_samples(const nlohmann::json& result) {
  const auto samples_of = [&](const std::string& part) {
    return result.at(part + "_samples_ms").get<std::vector<double>>();
  };
  for (const std::string part : {"forward", "backward", "total"}) {
    CAPTURE(part);
    std::vector<double> sorted = samples_of(part);
    REQUIRE(sorted.size() == 3);
    std::sort(sorted.begin(), sorted.end());
    CHECK(result.at(part + "_ms").get<double>() == sorted[1]);
  }
  const auto forward = samples_of("forward"), backward = samples_of("backward"), total = samples_of("total");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(total[i] > 0);
    CHECK(total[i] == Approx(forward[i] + backward[i]));
  }
}

}  // namespace orthornn::testing
