#include "orthornn/text/normalization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "orthornn/core/error.hpp"
#include "text/characters.hpp"

namespace orthornn {
namespace {

/// The text from its first byte that is not UTF-8 on; empty when there is none.
std::string_view after_utf8(std::string_view text) {
  while (!text.empty() && take_character(text) >= 0) {
  }
  return text;
}

/// Spaces for white space, and without the characters that are dropped.
std::string filtered(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint character = take_character(text);
    if (!is_dropped(character)) append_character(result, is_white_space(character) ? ' ' : character);
  }
  return result;
}

/// Normalization form D.
std::vector<CodePoint> decomposed(const std::string& text) {
  // Hardly ever are there more characters than bytes: four come from three bytes at most.
  std::vector<CodePoint> characters(text.size());
  const auto decompose = [&] {
    return utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), characters.data(),
                              static_cast<utf8proc_ssize_t>(characters.size()),
                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE));
  };
  utf8proc_ssize_t count = decompose();
  if (count > static_cast<utf8proc_ssize_t>(characters.size())) {
    characters.resize(static_cast<std::size_t>(count));
    count = decompose();
  }
  if (count < 0) throw ValueError(fmt::format("utf8proc: {}", utf8proc_errmsg(count)));
  characters.resize(static_cast<std::size_t>(count));
  return characters;
}

/// UTF-8 in normalization form C, of form D.
std::string composed(std::vector<CodePoint> characters) {
  const auto count = static_cast<utf8proc_ssize_t>(characters.size());
  characters.push_back(0);  // utf8proc_reencode ends its text with a zero
  const utf8proc_ssize_t bytes = utf8proc_reencode(
      characters.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (bytes < 0) throw ValueError(fmt::format("utf8proc: {}", utf8proc_errmsg(bytes)));
  return {reinterpret_cast<const char*>(characters.data()), static_cast<std::size_t>(bytes)};
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Appends characters one by one, with single spaces between words alone.
template <class Text>
class SingleSpaces {
 public:
  explicit SingleSpaces(Text& text) : text_(text) {}

  void append(CodePoint character) {
    if (character == ' ') {
      space_ = !text_.empty();
      return;
    }
    if (space_) text_.push_back(' ');
    space_ = false;
    if constexpr (std::same_as<Text, std::string>) {
      append_character(text_, character);
    } else {
      text_.push_back(character);
    }
  }

 private:
  Text& text_;
  bool space_ = false;
};

bool is_joiner_of_words(CodePoint character) {
  return character == '\'' || character == 0x2019 || character == '-' || character == 0x2010 ||
         character == 0x2011;
}

/// Spaces around each punctuation mark of a clean text.
std::string separate_punctuation(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 4);
  SingleSpaces spaced(result);
  bool after_word = false;         // the character before, not counting marks, is a letter or digit
  bool after_punctuation = false;  // .. a punctuation mark that is a word of its own
  while (!text.empty()) {
    const CodePoint character = take_character(text);
    if (is_mark(character)) {
      spaced.append(character);
      continue;
    }
    if (after_punctuation) spaced.append(' ');
    after_punctuation = false;
    if (is_punctuation(character)) {
      std::string_view next = text;
      const bool joins = after_word && is_joiner_of_words(character) && !next.empty() &&
                         is_letter_or_digit(take_character(next));
      after_punctuation = !joins;
      if (after_punctuation) spaced.append(' ');
    }
    spaced.append(character);
    after_word = is_letter_or_digit(character);
  }
  return result;
}

}  // namespace

bool is_utf8(std::string_view text) { return after_utf8(text).empty(); }

void check_utf8(const char* what, std::string_view text) {
  const std::string_view wrong = after_utf8(text);
  if (wrong.empty()) return;
  throw ValueError(fmt::format("{} is not UTF-8: its byte {} is 0x{:02x}; convert it to UTF-8", what,
                               text.size() - wrong.size() + 1, static_cast<unsigned char>(wrong.front())));
}

bool is_blank(std::string_view text) {
  check_utf8("the text", text);
  while (!text.empty()) {
    const CodePoint character = take_character(text);
    if (!is_white_space(character) && !is_dropped(character)) return false;
  }
  return true;
}

std::string clean_text(std::string_view text, const NormalizationOptions& options) {
  check_utf8("the text", text);
  const auto in_case = [&](CodePoint character) {
    return options.lower_case ? utf8proc_tolower(character) : character;
  };
  const std::string kept = filtered(text);
  if (is_ascii(kept)) {  // has one form only
    std::string result;
    result.reserve(kept.size());
    SingleSpaces spaced(result);
    for (const char c : kept) spaced.append(in_case(c));
    return result;
  }
  std::vector<CodePoint> result;
  SingleSpaces spaced(result);
  for (const CodePoint character : decomposed(kept)) {
    const bool stripped = options.strip_accents && utf8proc_category(character) == UTF8PROC_CATEGORY_MN;
    if (!stripped) spaced.append(in_case(character));
  }
  return composed(std::move(result));
}

std::string normalize(std::string_view sentence, const NormalizationOptions& options) {
  return separate_punctuation(clean_text(sentence, options));
}

}  // namespace orthornn
