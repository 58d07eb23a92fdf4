#include "core/checked_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

constexpr int deepest_level = 32;

/// The depth is counted before parsing: the parser accepts any depth.
void check_depth(std::string_view text) {
  int level = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++level > deepest_level)
        throw ValueError(
            fmt::format("this JSON is nested too deeply; expected at most {} levels", deepest_level));
    } else if (c == ']' || c == '}') {
      --level;
    }
  }
}

/// A value, shortened for a message.
std::string shown(const Json& value) {
  // JSON has no words for what is not finite, and a setting in TOML may be that.
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return fmt::format("{}", value.get<double>());
  const std::string text = json_text(value, -1);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

const Json& member_of_kind(const Json& object, const char* key, bool (Json::*is_kind)() const noexcept,
                           const char* kind) {
  const Json& value = member(object, key);
  if (!(value.*is_kind)()) refuse_member(key, kind, value);
  return value;
}

}  // namespace

std::string unexpected_member(const char* key, const std::string& expected, const Json& found) {
  return fmt::format("'{}' is {}; expected {}", key, shown(found), expected);
}

void refuse_member(const char* key, const std::string& expected, const Json& found) {
  throw ValueError(unexpected_member(key, expected, found));
}

Json parse_json(std::string_view text) {
  check_depth(text);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // Without the name of the exception, which comes first, in brackets.
    const std::string_view message = error.what();
    const std::size_t end = message.find("] ");
    throw ValueError(fmt::format("this is not JSON: {}",
                                 end == std::string_view::npos ? message : message.substr(end + 2)));
  }
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

Index whole_number(const char* what, const Json& value, Index lowest) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || std::in_range<Index>(value.get<std::uint64_t>()));
  if (fits && value.get<Index>() >= lowest) return value.get<Index>();
  throw ValueError(
      fmt::format("{} is {}; expected a whole number{} below 2^63", what, shown(value),
                  lowest == std::numeric_limits<Index>::min() ? "" : fmt::format(" from {} on,", lowest)));
}

const Json& member(const Json& object, const char* key) {
  if (!object.is_object())
    throw ValueError(fmt::format("{} was found; expected an object with the key '{}'", shown(object), key));
  const auto found = object.find(key);
  if (found == object.end()) throw ValueError(fmt::format("the key '{}' is missing", key));
  return *found;
}

Index integer_member(const Json& object, const char* key) {
  return whole_number(fmt::format("'{}'", key).c_str(), member(object, key));
}

std::uint64_t unsigned_member(const Json& object, const char* key) {
  return member_of_kind(object, key, &Json::is_number_unsigned, "a whole number from 0 to 2^64 - 1")
      .get<std::uint64_t>();
}

double real_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number()) refuse_member(key, "a number", value);
  if (!std::isfinite(value.get<double>())) refuse_member(key, "a finite number", value);
  return value.get<double>();
}

bool boolean_member(const Json& object, const char* key) {
  return member_of_kind(object, key, &Json::is_boolean, "true or false").get<bool>();
}

std::string text_member(const Json& object, const char* key) {
  return member_of_kind(object, key, &Json::is_string, "text").get<std::string>();
}

const Json& array_member(const Json& object, const char* key) {
  return member_of_kind(object, key, &Json::is_array, "an array");
}

const Json& object_member(const Json& object, const char* key) {
  return member_of_kind(object, key, &Json::is_object, "an object");
}

}  // namespace orthornn
