#include "orthornn/text/tokenize_13a.hpp"

#include "text/characters.hpp"

namespace orthornn {
namespace {

bool is_not_digit(char c) { return !is_ascii_digit(c); }
bool is_stop(char c) { return c == '.' || c == ','; }
bool is_hyphen(char c) { return c == '-'; }

/// ASCII without control characters, letters, digits and ' , - . ; the space is among them, as in mteval.
bool is_symbol(char c) {
  return (' ' <= c && c <= '&') || ('(' <= c && c <= '+') || c == '/' || (':' <= c && c <= '@') ||
         ('[' <= c && c <= '`') || ('{' <= c && c <= '~');
}

std::string_view without_final_white_space(std::string_view line) {
  std::size_t end = 0, at = 0;
  for (const Character& character : characters(line)) {
    at += character.bytes.size();
    if (!character.is_white_space) end = at;
  }
  return line.substr(0, end);
}

/// Replaces from left to right; what a replacement joins is not looked at again.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string separate_symbols(const std::string& text) {
  std::string separated;
  for (const char c : text) {
    if (is_symbol(c)) {
      separated += {' ', c, ' '};
    } else {
      separated += c;
    }
  }
  return separated;
}

enum class Separate { first, second };

/// Puts spaces around one character of each pair. Pairs are found from left to right and do not overlap: the
/// second character of a pair is not the first of the next one. Characters of several bytes need no care,
/// because the tests that hold for one of their bytes hold for all.
template <class IsFirst, class IsSecond>
std::string separate_in_pairs(const std::string& text, IsFirst is_first, IsSecond is_second, Separate which) {
  std::string separated;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_first(text[i]) || i + 1 == text.size() || !is_second(text[i + 1])) {
      separated += text[i];
      continue;
    }
    if (which == Separate::first) separated += ' ';
    separated += {text[i], ' ', text[i + 1]};
    if (which == Separate::second) separated += ' ';
    ++i;
  }
  return separated;
}

std::string with_single_spaces(const std::string& text) {
  std::string joined;
  bool word_begins = false;
  for (const Character& character : characters(text)) {
    if (character.is_white_space) {
      word_begins = !joined.empty();
      continue;
    }
    if (word_begins) joined += ' ';
    word_begins = false;
    joined += character.bytes;
  }
  return joined;
}

}  // namespace

std::string tokenize_13a(std::string_view line) {
  // 1. Marks, line ends and entities.
  std::string text(without_final_white_space(line));
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  // 2. to 4. Each rule sees the spaces of the one before. The spaces at both ends are neighbours of the first
  // and last character.
  text = separate_symbols(" " + text + " ");
  text = separate_in_pairs(text, is_not_digit, is_stop, Separate::second);
  text = separate_in_pairs(text, is_stop, is_not_digit, Separate::first);
  text = separate_in_pairs(text, is_ascii_digit, is_hyphen, Separate::second);
  return with_single_spaces(text);
}

}  // namespace orthornn
