#include "text/characters.hpp"

#include <fmt/format.h>
#include <utf8proc.h>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

bool is_unicode_space(utf8proc_int32_t code_point) {
  const utf8proc_property_t* property = utf8proc_get_property(code_point);
  return property->category == UTF8PROC_CATEGORY_ZS || property->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property->bidi_class == UTF8PROC_BIDI_CLASS_B || property->bidi_class == UTF8PROC_BIDI_CLASS_S;
}

}  // namespace

std::vector<Character> characters(std::string_view text) {
  std::vector<Character> found;
  found.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t size =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    if (size <= 0) {
      throw ValueError(
          fmt::format("expected UTF-8 and found byte 0x{:02x} at position {}; convert the text to UTF-8",
                      static_cast<unsigned char>(text[at]), at));
    }
    found.push_back({text.substr(at, static_cast<std::size_t>(size)), is_unicode_space(code_point)});
    at += static_cast<std::size_t>(size);
  }
  return found;
}

}  // namespace orthornn
