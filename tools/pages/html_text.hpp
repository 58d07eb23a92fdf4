#pragma once

#include <fmt/format.h>

#include <map>
#include <string>

#include "core/checked_json.hpp"

namespace orthornn::program {

/// Escapes text for use between tags and in quoted attributes. Bytes that are not UTF-8 and control
/// characters become U+FFFD.
inline std::string html_text(const std::string& text) {
  static const std::map<char, const char*> escapes = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  const std::string utf8 = parse_json(json_text(text, -1)).get<std::string>();
  std::string result;
  for (const char c : utf8) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    if (const auto escape = escapes.find(c); escape != escapes.end()) {
      result += escape->second;
    } else {
      result += control ? "\xef\xbf\xbd" : std::string(1, c);
    }
  }
  return result;
}

/// A figure with a title, content in HTML and a caption.
inline std::string html_figure(const std::string& title, const std::string& content,
                               const std::string& caption) {
  return fmt::format("<figure>\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n", html_text(title),
                     content, html_text(caption));
}

}  // namespace orthornn::program
