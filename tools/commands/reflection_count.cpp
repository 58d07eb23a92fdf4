#include "commands/reflection_count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace orthornn::program {
namespace {

/// A whole number, 0 or more, and nothing else.
std::optional<Index> whole_number(std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ReflectionCount> ReflectionCount::parse(const std::string& text) {
  if (text == "N" || text == "0") return ReflectionCount(1, 0);
  const bool share = text.starts_with("N/");
  const std::optional<Index> number = whole_number(share ? std::string_view(text).substr(2) : text);
  if (!number || *number == 0) return std::nullopt;
  return share ? ReflectionCount(*number, 0) : ReflectionCount(0, *number);
}

std::optional<Index> ReflectionCount::at(Index hidden) const {
  if (divisor_ > 0) return std::max<Index>(1, hidden / divisor_);
  return count_ <= hidden ? std::optional(count_) : std::nullopt;
}

std::string ReflectionCount::text() const {
  if (divisor_ == 0) return fmt::format("{}", count_);
  return divisor_ == 1 ? "N" : fmt::format("N/{}", divisor_);
}

}  // namespace orthornn::program
