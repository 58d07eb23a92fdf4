#include "tasks/sequences/symbol_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orthornn/core/error.hpp"
#include "text/characters.hpp"

namespace orthornn {
namespace {

constexpr std::int32_t unknown_symbol = 0;
constexpr std::size_t code_points = 0x110000;

/// Calls `take` with each character and its bytes.
void for_each_character(std::string_view text, const auto& take) {
  std::string_view left = text;
  while (!left.empty()) {
    const char* begin = left.data();
    const CodePoint character = take_character(left);
    if (character < 0) {
      const std::string_view before = text.substr(0, text.size() - left.size());
      throw ValueError(fmt::format("byte {} of its line {} is not UTF-8; expected UTF-8, or --text bytes",
                                   before.size() - (before.rfind('\n') + 1) + 1,
                                   std::ranges::count(before, '\n') + 1));
    }
    take(character, std::string_view(begin, static_cast<std::size_t>(left.data() - begin)));
  }
}

/// Calls `take` with each word and with each end of a line.
void for_each_word(std::string_view text, const auto& take) {
  const char* begin = text.data();
  std::size_t length = 0;
  for_each_character(text, [&](CodePoint character, std::string_view bytes) {
    if (!is_white_space(character)) {
      if (length == 0) begin = bytes.data();
      length += bytes.size();
      return;
    }
    if (length > 0) take(std::string_view(begin, length));
    length = 0;
    if (character == '\n') take(bytes);
  });
  if (length > 0) take(std::string_view(begin, length));
}

}  // namespace

void SymbolCounts::add(std::string_view text) {
  if (unit_ == TextUnit::words) {
    for_each_word(text, [&](std::string_view word) {
      const auto found = words_.find(word);
      if (found != words_.end())
        ++found->second;
      else
        words_.emplace(word, 1);
    });
  } else {
    characters_.resize(code_points);
    for_each_character(text, [&](CodePoint character, std::string_view) {
      ++characters_[static_cast<std::size_t>(character)];
    });
  }
}

std::vector<std::string> SymbolCounts::most_frequent(Index most) const {
  std::vector<std::pair<Index, std::string>> counted;
  for (const auto& [word, count] : words_) counted.emplace_back(-count, word);
  for (std::size_t c = 0; c < characters_.size(); ++c) {
    if (characters_[c] == 0) continue;
    std::string name;
    append_character(name, static_cast<CodePoint>(c));
    counted.emplace_back(-characters_[c], std::move(name));
  }
  std::ranges::sort(counted);
  if (most > 0 && most < std::ssize(counted)) counted.resize(static_cast<std::size_t>(most));
  std::vector<std::string> names;
  for (auto& [count, name] : counted) names.push_back(std::move(name));
  return names;
}

SymbolTable::SymbolTable(TextUnit unit, bool has_end, std::vector<std::string> names)
    : unit_(unit), names_(std::move(names)) {
  if (unit == TextUnit::automatic)
    throw ValueError("a text without a unit; expected bytes, characters or words");
  if (has_end) end_ = unit == TextUnit::bytes ? 256 : 1;
  if (unit == TextUnit::bytes) {
    if (!names_.empty()) throw ValueError("bytes have no names; expected none");
    return;
  }
  if (unit == TextUnit::characters) characters_.assign(code_points, unknown_symbol);
  std::int32_t symbol = first_name();
  for (const std::string& name : names_) {
    if (unit == TextUnit::words) {
      words_.emplace(name, symbol++);
      continue;
    }
    std::string_view left = name;
    const CodePoint character = left.empty() ? -1 : take_character(left);
    if (character < 0 || !left.empty())
      throw ValueError(fmt::format("the name of symbol {} is not one character of UTF-8", symbol));
    characters_[static_cast<std::size_t>(character)] = symbol++;
  }
}

std::optional<std::int32_t> SymbolTable::unknown() const {
  return unit_ == TextUnit::bytes ? std::nullopt : std::optional(unknown_symbol);
}

void SymbolTable::read(std::string_view text, std::vector<std::int32_t>& to) const {
  if (unit_ == TextUnit::bytes) {
    for (const char byte : text) to.push_back(static_cast<unsigned char>(byte));
  } else if (unit_ == TextUnit::words) {
    for_each_word(text, [&](std::string_view word) {
      const auto found = words_.find(word);
      to.push_back(found != words_.end() ? found->second : unknown_symbol);
    });
  } else {
    for_each_character(text, [&](CodePoint character, std::string_view) {
      to.push_back(characters_[static_cast<std::size_t>(character)]);
    });
  }
}

std::string_view SymbolTable::name(std::int32_t symbol) const {
  if (symbol == end_) return "\n";
  if (symbol == unknown_symbol) return "\xEF\xBF\xBD";  // U+FFFD, the replacement character
  return names_[static_cast<std::size_t>(symbol - first_name())];
}

std::string SymbolTable::text(std::span<const std::int32_t> symbols) const {
  std::string result;
  for (const std::int32_t symbol : symbols) {
    if (symbol < 0 || symbol >= count())
      throw ValueError(fmt::format("{} is no symbol; expected 0 to {}", symbol, count() - 1));
    if (unit_ == TextUnit::bytes && symbol != end_) {
      result.push_back(static_cast<char>(symbol));
      continue;
    }
    const std::string_view next = name(symbol);
    if (unit_ == TextUnit::words && next != "\n" && !result.empty() && result.back() != '\n')
      result.push_back(' ');
    result += next;
  }
  return result;
}

std::vector<std::int32_t> SymbolTable::bytes_of_symbols() const {
  std::vector<std::int32_t> bytes(static_cast<std::size_t>(count()), 1);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool has_space = unit_ == TextUnit::words && names_[i] != "\n";
    bytes[static_cast<std::size_t>(first_name()) + i] =
        static_cast<std::int32_t>(names_[i].size()) + (has_space ? 1 : 0);
  }
  return bytes;
}

}  // namespace orthornn
