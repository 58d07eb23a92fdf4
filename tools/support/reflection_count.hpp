#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/parsed_number.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// A number of reflections L as one says it for many sizes N at once: "N", "N/2", "128".
class ReflectionCount {
 public:
  /// "0" stands for N. nullopt for any other text, 0 and below included.
  static std::optional<ReflectionCount> parse(const std::string& text) {
    if (text == "N" || text == "0") return ReflectionCount(true, 1);
    const bool share = text.starts_with("N/");
    const std::optional<Index> number = parsed_number<Index>(std::string_view(text).substr(share ? 2 : 0));
    if (!number || *number <= 0) return std::nullopt;
    return ReflectionCount(share, *number);
  }

  /// L at this size, nullopt where it would be above N; N/3 is rounded down, to 1 at least.
  std::optional<Index> at(Index hidden) const {
    if (share_) return std::max<Index>(1, hidden / number_);
    return number_ <= hidden ? std::optional(number_) : std::nullopt;
  }
  /// "N", "N/2" or "128"
  std::string text() const {
    return share_ && number_ == 1 ? "N" : fmt::format("{}{}", share_ ? "N/" : "", number_);
  }

 private:
  ReflectionCount(bool share, Index number) : share_(share), number_(number) {}

  bool share_;
  Index number_;
};

}  // namespace orthornn::program
