#pragma once

#include <cctype>
#include <filesystem>
#include <string>
#include <utility>

namespace orthornn {

/// Whether the name of a file comes before that of another one. Numbers in names are compared as numbers, so
/// that frame-9 comes before frame-10.
inline bool comes_before(const std::filesystem::path& a, const std::filesystem::path& b) {
  const std::string first = a.filename().string(), second = b.filename().string();
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  // A number without leading zeros, and the place behind it.
  const auto number_at = [&](const std::string& text, std::size_t from) {
    std::size_t end = from;
    while (end < text.size() && is_digit(text[end])) ++end;
    while (from + 1 < end && text[from] == '0') ++from;
    return std::pair(text.substr(from, end - from), end);
  };
  std::size_t i = 0, j = 0;
  while (i < first.size() && j < second.size()) {
    if (is_digit(first[i]) && is_digit(second[j])) {
      const auto [x, after_x] = number_at(first, i);
      const auto [y, after_y] = number_at(second, j);
      if (x != y) return std::pair(x.size(), x) < std::pair(y.size(), y);
      i = after_x;
      j = after_y;
    } else {
      if (first[i] != second[j])
        return static_cast<unsigned char>(first[i]) < static_cast<unsigned char>(second[j]);
      ++i;
      ++j;
    }
  }
  if (i < first.size() || j < second.size()) return i == first.size();
  return first < second;  // they differ in leading zeros
}

}  // namespace orthornn
