#pragma once
// Single characters of a UTF-8 text, as utf8proc knows them, and its words between spaces.

#include <utf8proc.h>

#include <string>
#include <string_view>
#include <vector>

namespace orthornn {

using CodePoint = utf8proc_int32_t;

/// The character at the beginning of `text`, which it leaves; negative, leaving nothing, when its bytes are
/// not UTF-8. The text is not empty.
inline CodePoint take_character(std::string_view& text) {
  CodePoint character = static_cast<unsigned char>(text.front());
  if (character < 0x80) {
    text.remove_prefix(1);
    return character;
  }
  const utf8proc_ssize_t bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                  static_cast<utf8proc_ssize_t>(text.size()), &character);
  if (bytes <= 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(bytes));
  return character;
}

inline void append_character(std::string& text, CodePoint character) {
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(character, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

/// Property White_Space (Unicode's PropList.txt).
constexpr bool is_white_space(CodePoint character) {
  return (character >= 0x09 && character <= 0x0D) || character == 0x20 || character == 0x85 ||
         character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
         character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F ||
         character == 0x3000;
}

/// Control and format characters that are neither white space nor joiners.
inline bool is_dropped(CodePoint character) {
  if (character >= 0x20 && character < 0x7F) return false;
  if (is_white_space(character) || character == 0x200C || character == 0x200D) return false;
  const utf8proc_category_t category = utf8proc_category(character);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF;
}

inline bool is_mark(CodePoint character) {
  const utf8proc_category_t category = utf8proc_category(character);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

inline bool is_punctuation(CodePoint character) {
  const utf8proc_category_t category = utf8proc_category(character);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/// A letter or a number of any script.
inline bool is_letter_or_digit(CodePoint character) {
  const utf8proc_category_t category = utf8proc_category(character);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

constexpr bool is_ascii_digit(char c) { return '0' <= c && c <= '9'; }

/// A Unicode code point of a text.
struct Character {
  /// In UTF-8, a part of the text that it was read from.
  std::string_view bytes;
  /// Of category Zs, or of the bidirectional class WS, B or S: where Python's str.split() splits.
  bool is_white_space;
};

/// The characters of a UTF-8 text, which must outlive them. Throws ValueError for other text.
std::vector<Character> characters(std::string_view text);

/// The words of a text that has single spaces between them. The text must outlive them.
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace orthornn
