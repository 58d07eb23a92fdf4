#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace orthornn {

/// All of the text as a number: "12.5", "nan" and the like, or a whole number. No value for any other text,
/// also with a plus or blanks before it, and for a number outside the range of the type.
template <class Number>
std::optional<Number> parsed_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace orthornn
