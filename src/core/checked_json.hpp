#pragma once
// Reads JSON from untrusted files. Its depth is bounded. A member of an unexpected kind is an error.

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "orthornn/core/shape.hpp"

namespace orthornn {

using Json = nlohmann::ordered_json;

/// Throws ValueError for text that is not JSON, or that is nested more than 32 levels deep. orthornn writes
/// five levels. nlohmann's copies and destructors recurse once a level.
Json parse_json(std::string_view text);

/// JSON for people and other programs, in ASCII. A text that is no UTF-8, such as a path may be, gets U+FFFD
/// for each byte that is wrong. `indent`: spaces for each level; -1 for one line.
std::string json_text(const Json& json, int indent = 2);

/// A JSON number without fraction and exponent, from `lowest` to 2^63 - 1; true is not 1. Throws ValueError,
/// naming `what`, for any other value.
Index whole_number(const char* what, const Json& value, Index lowest = std::numeric_limits<Index>::min());

/// Members of an object. Each function throws ValueError, naming the key, what was expected and what was
/// found, when the object has no such member, when it is of another kind, or when it is out of range.
const Json& member(const Json& object, const char* key);
Index integer_member(const Json& object, const char* key);
std::uint64_t unsigned_member(const Json& object, const char* key);
double real_member(const Json& object, const char* key);
bool boolean_member(const Json& object, const char* key);
std::string text_member(const Json& object, const char* key);
/// What they say of a value that is not as expected, and throw.
std::string unexpected_member(const char* key, const std::string& expected, const Json& found);
[[noreturn]] void refuse_member(const char* key, const std::string& expected, const Json& found);
/// An array or an object, whose own members are then read.
const Json& array_member(const Json& object, const char* key);
const Json& object_member(const Json& object, const char* key);

}  // namespace orthornn
