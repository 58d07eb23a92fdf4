#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace orthornn::program {

/// Escapes text for use between tags and in quoted attributes. Bytes that are not UTF-8 and control
/// characters become U+FFFD.
inline std::string html_text(const std::string& text) {
  using Json = nlohmann::json;
  const std::string utf8 =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  std::string result;
  for (const char c : utf8) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '\n':
      case '\t':
        result += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          result += "\xef\xbf\xbd";
        } else {
          result += c;
        }
    }
  }
  return result;
}

}  // namespace orthornn::program
