#pragma once
// What the texts of tokens are in every tokenizer.

#include <array>
#include <cstddef>
#include <string_view>

#include "orthornn/text/tokenizer.hpp"

namespace orthornn {

/// Texts of the special tokens, at their numbers in `token_ids`.
inline constexpr std::array<std::string_view, token_ids::first_of_text> special_texts{"<pad>", "<unk>", "<s>",
                                                                                      "</s>"};

/// Bytes of a word or piece.
inline constexpr std::size_t longest_token = 256;

/// Throws ValueError, naming the token's number, for text that is no token of clean text: empty, longer than
/// `longest_token`, not UTF-8, with a space, or with what `clean_text` would change, as control characters,
/// which must not reach a terminal.
void check_token_text(std::string_view text, std::size_t token);

/// Throws ValueError: an earlier token has the text of this one.
[[noreturn]] void refuse_repeated_token(std::string_view text, std::size_t token);

}  // namespace orthornn
