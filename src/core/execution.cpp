#include "orthornn/core/execution.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"

namespace orthornn {

std::string name_of(RolloutWay way) {
  switch (way) {
    case RolloutWay::automatic:
      return "automatic";
    case RolloutWay::resident:
      return "resident";
    case RolloutWay::cluster:
      return "cluster";
    case RolloutWay::stepwise:
      return "stepwise";
  }
  return {};
}

RolloutWay parse_rollout_way(const std::string& name) {
  using enum RolloutWay;
  for (const RolloutWay way : {automatic, resident, cluster, stepwise}) {
    if (name == name_of(way)) return way;
  }
  throw ValueError(fmt::format(
      "unknown way of the rollout '{}'; expected automatic, resident, cluster or stepwise", name));
}

}  // namespace orthornn
