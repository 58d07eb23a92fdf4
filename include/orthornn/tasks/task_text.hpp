#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// The text that the symbols of a task stand for.
class TaskText {
 public:
  virtual ~TaskText() = default;

  /// Symbols of a text as models of the task read them. Throws ValueError for a text that the task cannot
  /// read, such as one that is not UTF-8.
  virtual std::vector<std::int32_t> symbols_of(std::string_view text) const = 0;
  /// Text of the symbols.
  virtual std::string text_of(std::span<const std::int32_t> symbols) const = 0;
  /// Symbol of the end of a text, which also comes before a text; no value where texts have no end.
  virtual std::optional<std::int32_t> text_end() const = 0;
  /// Symbol of what the vocabulary lacks; no value where it lacks nothing.
  virtual std::optional<std::int32_t> unknown_symbol() const = 0;
  /// Steps that the target of a step lies ahead in the text; 0 where targets are no part of it.
  virtual Index ahead() const = 0;
};

}  // namespace orthornn
