#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace orthornn::program {

/// Escapes text for use between tags and in quoted attributes. Bytes that are not UTF-8 and control
/// characters become U+FFFD.
inline std::string html_text(const std::string& text) {
  using Json = nlohmann::json;
  static const std::map<char, const char*> escapes = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  const std::string utf8 =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
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

}  // namespace orthornn::program
