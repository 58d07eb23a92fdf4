#pragma once

#include <string>

namespace orthornn::testing {

/// How often the words stand in the text, without overlaps.
inline long occurrences(const std::string& text, const std::string& words) {
  long found = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos; at += words.size()) ++found;
  return found;
}

}  // namespace orthornn::testing
