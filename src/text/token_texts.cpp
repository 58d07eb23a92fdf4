#include "text/token_texts.hpp"

#include <fmt/format.h>

#include "orthornn/core/error.hpp"
#include "orthornn/text/normalization.hpp"

namespace orthornn {

void check_token_text(std::string_view text, std::size_t token) {
  const auto refuse = [&](const char* fault) {
    throw ValueError(
        fmt::format("token {} {}; expected 1 to {} bytes of clean text", token, fault, longest_token));
  };
  if (text.empty()) refuse("is empty");
  if (text.size() > longest_token) refuse("is too long");
  if (!is_utf8(text)) refuse("is not UTF-8");
  if (text.find(' ') != std::string_view::npos) refuse("has a space in it");
  if (clean_text(text, {.lower_case = false}) != text)
    refuse("has white space or control characters in it, or is not in normalization form C");
}

void refuse_repeated_token(std::string_view text, std::size_t token) {
  throw ValueError(fmt::format("token {} is '{}', which is there before", token, text));
}

}  // namespace orthornn
