#pragma once

#include <cstdint>

namespace orthornn {

/// Order in which the reflections of a product are applied to a vector.
enum class ReflectionOrder {
  first_to_last,  ///< The first reflection acts first, as in Q^T.
  last_to_first   ///< The last reflection acts first, as in Q.
};

/// Number of the reflection that acts at a step, both from 0, among `count` reflections.
constexpr std::int64_t reflection_at(std::int64_t step, std::int64_t count, ReflectionOrder order) {
  return order == ReflectionOrder::first_to_last ? step : count - 1 - step;
}

}  // namespace orthornn
