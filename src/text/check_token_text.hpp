#pragma once

#include <cstddef>
#include <string_view>

namespace orthornn {

/// Bytes of a word or piece.
inline constexpr std::size_t longest_token = 256;

/// Throws ValueError, naming the token's number, for text that is no token of clean text: empty, longer than
/// `longest_token`, not UTF-8, with a space, or with what `clean_text` would change, as control characters,
/// which must not reach a terminal.
void check_token_text(std::string_view text, std::size_t token);

}  // namespace orthornn
