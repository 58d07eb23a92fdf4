#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/normalization.hpp"
#include "text/characters.hpp"

namespace orthornn {
namespace {

/// To which neighbours a word is joined without a space.
struct Joins {
  bool to_left = false;
  bool to_right = false;
};

bool is_ascii_letter(std::string_view word) {
  return word.size() == 1 && ((word[0] >= 'a' && word[0] <= 'z') || (word[0] >= 'A' && word[0] <= 'Z'));
}

/// Of a punctuation mark whose sides its kind decides. Other words have spaces on both.
Joins joins_of(std::string_view word) {
  constexpr std::string_view before_space = ".,?!;:%\u2026";
  std::string_view rest = word;
  const CodePoint character = take_character(rest);
  if (!rest.empty()) return {};  // more than one character
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PI:
      return {.to_right = true};
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PF:
      return {.to_left = true};
    default:
      break;
  }
  if (character == 0xBF || character == 0xA1) return {.to_right = true};  // inverted ? and !
  return {.to_left = before_space.find(word) != std::string_view::npos};
}

/// Quotes open and close in turn; a single quote without partner is an apostrophe.
void join_quotes(const std::vector<std::string_view>& words, std::string_view quote,
                 std::vector<Joins>& joins) {
  const auto count = std::ranges::count(words, quote);
  const bool last_is_apostrophe = quote == "'" && count % 2 == 1;
  std::ptrdiff_t number = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != quote) continue;
    ++number;
    const bool opens = number % 2 == 1 && !(last_is_apostrophe && number == count);
    joins[i] = {.to_left = !opens, .to_right = opens};
  }
}

/// 10:30, 1.5, $1,000
bool is_within_number(const std::vector<std::string_view>& words, std::size_t i) {
  if (i == 0 || i + 1 == words.size()) return false;
  const auto digits = std::ranges::find_if_not(words[i + 1], is_ascii_digit) - words[i + 1].begin();
  if (!is_ascii_digit(words[i - 1].back()) || digits == 0) return false;
  return words[i] == "." || words[i] == ":" || (words[i] == "," && digits == 3);
}

/// a.m., U.S.
bool is_within_initials(const std::vector<std::string_view>& words, std::size_t i) {
  if (words[i] != "." || i == 0 || i + 1 == words.size()) return false;
  return is_ascii_letter(words[i - 1]) && is_ascii_letter(words[i + 1]);
}

}  // namespace

std::string detokenize(std::string_view sentence) {
  const std::string clean = clean_text(sentence, {.lower_case = false});
  const std::vector<std::string_view> words = words_of(clean);
  std::vector<Joins> joins;
  joins.reserve(words.size());
  for (const std::string_view word : words) joins.push_back(joins_of(word));
  join_quotes(words, "\"", joins);
  join_quotes(words, "'", joins);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (is_within_number(words, i) || is_within_initials(words, i))
      joins[i] = {.to_left = true, .to_right = true};
  }
  std::string result;
  result.reserve(clean.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && !joins[i - 1].to_right && !joins[i].to_left) result += ' ';
    result += words[i];
  }
  return result;
}

}  // namespace orthornn
