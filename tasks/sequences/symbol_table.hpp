#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orthornn/tasks/sequences_task.hpp"

namespace orthornn {

/// Lookup of a std::string by std::string_view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// How often each character or word comes in texts.
class SymbolCounts {
 public:
  explicit SymbolCounts(TextUnit unit) : unit_(unit) {}
  /// Throws ValueError for text that is not UTF-8.
  void add(std::string_view text);
  /// The most frequent ones, the most frequent first; 0: all. Equally frequent ones are in the order of their
  /// bytes.
  std::vector<std::string> most_frequent(Index most) const;

 private:
  TextUnit unit_;
  /// By code point.
  std::vector<Index> characters_;
  std::unordered_map<std::string, Index, TextHash, std::equal_to<>> words_;
};

/// Symbols of texts. Bytes are the symbols 0 to 255. Of characters and words, 0 stands for those that the
/// table lacks, and the others follow. If texts have an end, it is the symbol after those of bytes, and the
/// symbol 1 before the names of others.
class SymbolTable {
 public:
  /// `names` are the characters or words; none for bytes. Throws ValueError for names that are not.
  SymbolTable(TextUnit unit, bool has_end, std::vector<std::string> names);

  TextUnit unit() const { return unit_; }
  const std::vector<std::string>& names() const { return names_; }
  Index count() const {
    return unit_ == TextUnit::bytes ? (end_ ? 257 : 256) : first_name() + std::ssize(names_);
  }
  /// Symbol of the end of a text, if there is one.
  std::optional<std::int32_t> end() const { return end_; }
  /// Symbol of what the table lacks; none for bytes, which are all there.
  std::optional<std::int32_t> unknown() const;
  /// Adds the symbols of a text, without its end. Throws ValueError for text that is not UTF-8.
  void read(std::string_view text, std::vector<std::int32_t>& to) const;
  /// Text of the symbols, with an end of a line for the end of a text. Throws ValueError for numbers that are
  /// no symbols.
  std::string text(std::span<const std::int32_t> symbols) const;
  /// Bytes of a text that each symbol stands for; of words with the space after them.
  std::vector<std::int32_t> bytes_of_symbols() const;

 private:
  std::int32_t first_name() const { return end_ ? 2 : 1; }
  std::string_view name(std::int32_t symbol) const;

  TextUnit unit_;
  std::optional<std::int32_t> end_;
  std::vector<std::string> names_;
  /// Symbol of each code point, 0 where it has none.
  std::vector<std::int32_t> characters_;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> words_;
};

}  // namespace orthornn
