#pragma once
// The part of TOML that settings need: `key = value` lines without tables, where a value is a string on one
// line, a number, true or false. Whatever else the file has is an error with its line.
//
// Why not CLI11's own reader: it takes text for numbers and a lone word for true, cuts text at '#', ',' and
// blanks, knows no escapes, appends a second value of a key to the first, and has no line numbers. A slip in
// a file would train with other settings than it says, and not every path would come back from config.toml.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace orthornn::program {

struct TomlEntry {
  enum class Kind { text, number, boolean };
  std::string key;
  std::string value;  // text without quotes and escapes; numbers without underscores
  Kind kind;
  int line;
};

/// What is wrong, and where.
struct TomlError {
  int line;
  std::string message;
};

/// One line of a TOML file, read from left to right.
class TomlLine {
 public:
  TomlLine(std::string_view text, int number) : text_(text), number_(number) {}

  /// Does it hold anything but blanks and a comment?
  bool has_content() {
    skip_blanks();
    return at_ < text_.size() && text_[at_] != '#';
  }

  TomlEntry entry() {
    TomlEntry entry{.key = "", .value = "", .kind = TomlEntry::Kind::text, .line = number_};
    if (text_[at_] == '[') fail("tables are not used here; write 'key = value'");
    const auto in_key = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    };
    entry.key = quoted() ? string() : take_while(in_key);
    skip_blanks();
    if (entry.key.empty() || at_ == text_.size() || text_[at_] != '=') fail("expected 'key = value'");
    ++at_;
    skip_blanks();
    if (quoted()) {
      entry.value = string();
    } else {
      entry.value = take_while([](char c) { return c != '#' && c != ' ' && c != '\t' && c != '\r'; });
      const bool boolean = entry.value == "true" || entry.value == "false";
      if (!boolean && !is_number(entry.value)) {
        fail(fmt::format("'{}' has the value '{}'; expected a number, true, false or \"text\"", entry.key,
                         entry.value));
      }
      entry.kind = boolean ? TomlEntry::Kind::boolean : TomlEntry::Kind::number;
      std::erase(entry.value, '_');
    }
    if (has_content()) fail(fmt::format("something follows the value of '{}'", entry.key));
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw TomlError{number_, message}; }
  bool quoted() const { return at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\''); }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  template <class Wanted>
  std::string take_while(const Wanted& wanted) {
    const std::size_t first = at_;
    while (at_ < text_.size() && wanted(text_[at_])) ++at_;
    return std::string(text_.substr(first, at_ - first));
  }

  static bool is_number(std::string_view text) {
    if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
    if (text == "inf" || text == "nan") return true;
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0 &&
           text.find_first_not_of("0123456789_.eE+-") == std::string_view::npos;
  }

  /// "with \" escapes" or 'without'
  std::string string() {
    const char quote = text_[at_++];
    std::string result;
    while (at_ < text_.size() && text_[at_] != quote) {
      const char c = text_[at_++];
      if (c != '\\' || quote == '\'') {
        result += c;
        continue;
      }
      if (at_ == text_.size()) break;
      const char escape = text_[at_++];
      constexpr std::string_view names = "\"\\bfnrt", values = "\"\\\b\f\n\r\t";
      if (const std::size_t i = names.find(escape); i != std::string_view::npos) {
        result += values[i];
      } else if (escape == 'u' || escape == 'U') {
        append_character(result, escape == 'u' ? 4 : 8);
      } else {
        fail(fmt::format("unknown escape '\\{}'", escape));
      }
    }
    if (at_ == text_.size()) fail("a text without its closing quotation mark");
    ++at_;
    return result;
  }

  void append_character(std::string& result, std::size_t digits) {
    unsigned long code = 0;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) fail("an escape without its hexadecimal digits");
      code = code * 16 + static_cast<unsigned long>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail("an escape that is no character");
    const auto byte = [&](unsigned long bits) { result += static_cast<char>(bits); };
    if (code < 0x80) {
      byte(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    byte((0xf00UL >> more & 0xf0UL) | code >> 6 * more);
    for (int i = more - 1; i >= 0; --i) byte(0x80 | (code >> 6 * i & 0x3f));
  }

  std::string_view text_;
  int number_;
  std::size_t at_ = 0;
};

/// All entries in their order. Throws TomlError, also for a key that is there twice.
inline std::vector<TomlEntry> read_flat_toml(std::istream& stream) {
  std::vector<TomlEntry> entries;
  std::string text;
  for (int number = 1; std::getline(stream, text); ++number) {
    TomlLine line(text, number);
    if (!line.has_content()) continue;
    TomlEntry entry = line.entry();
    const auto twin =
        std::find_if(entries.begin(), entries.end(), [&](const TomlEntry& e) { return e.key == entry.key; });
    if (twin != entries.end()) {
      throw TomlError{number,
                      fmt::format("'{}' is given a second time, after line {}", entry.key, twin->line)};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// "text" as a TOML file has it.
inline std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace orthornn::program
