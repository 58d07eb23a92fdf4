#pragma once

#include <string_view>
#include <vector>

namespace orthornn {

/// A Unicode code point.
struct Character {
  /// In UTF-8, a part of the text that it was read from.
  std::string_view bytes;
  /// Of category Zs, or of the bidirectional class WS, B or S: where Python's str.split() splits.
  bool is_white_space;
};

/// The characters of a UTF-8 text, which must outlive them. Throws ValueError for other text.
std::vector<Character> characters(std::string_view text);

}  // namespace orthornn
