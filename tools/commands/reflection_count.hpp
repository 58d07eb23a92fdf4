#pragma once

#include <optional>
#include <string>

#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// A number of reflections L as one says it for many sizes N at once: "N", "N/2", "128".
class ReflectionCount {
 public:
  /// "0" stands for N. nullopt for any other text, 0 and below included.
  static std::optional<ReflectionCount> parse(const std::string& text);

  /// L at this size, nullopt where it would be above N; N/3 is rounded down, to 1 at least.
  std::optional<Index> at(Index hidden) const;
  /// "N", "N/2" or "128"
  std::string text() const;

 private:
  ReflectionCount(Index divisor, Index count) : divisor_(divisor), count_(count) {}

  Index divisor_;  // 0: count_ instead
  Index count_;
};

}  // namespace orthornn::program
