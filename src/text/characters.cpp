#include "text/characters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

bool splits_in_python(CodePoint character) {
  const utf8proc_property_t* property = utf8proc_get_property(character);
  return property->category == UTF8PROC_CATEGORY_ZS || property->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property->bidi_class == UTF8PROC_BIDI_CLASS_B || property->bidi_class == UTF8PROC_BIDI_CLASS_S;
}

}  // namespace

std::vector<Character> characters(std::string_view text) {
  std::vector<Character> found;
  found.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::string_view rest = text.substr(at);
    const CodePoint character = take_character(rest);
    if (character < 0) {
      throw ValueError(
          fmt::format("expected UTF-8 and found byte 0x{:02x} at position {}; convert the text to UTF-8",
                      static_cast<unsigned char>(text[at]), at));
    }
    const std::size_t end = text.size() - rest.size();
    found.push_back({text.substr(at, end - at), splits_in_python(character)});
    at = end;
  }
  return found;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

}  // namespace orthornn
