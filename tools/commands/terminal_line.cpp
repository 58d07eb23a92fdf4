#include "commands/terminal_line.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

#include "core/parsed_number.hpp"

namespace orthornn::program {
namespace {

/// Bytes of a character of UTF-8 after its first.
bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

Index columns_of(const std::string& text) {
  return static_cast<Index>(
      std::ranges::count_if(text, [](char byte) { return !continues_character(byte); }));
}

}  // namespace

Index terminal_columns(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* variable = std::getenv("COLUMNS");
  const Index columns = parsed_number<Index>(variable == nullptr ? "" : variable).value_or(0);
  return columns > 0 ? columns : 80;
}

std::string fitted_line(std::vector<LinePart> parts, Index columns) {
  const Index room = columns - 1;
  Index length = 0;
  for (const LinePart& part : parts) length += columns_of(part.text);
  while (length > room) {
    const auto least = std::ranges::max_element(parts, {}, &LinePart::rank);
    if (least == parts.end() || least->rank == 0) break;
    length -= columns_of(least->text);
    parts.erase(least);
  }
  std::string line;
  for (const LinePart& part : parts) line += part.text;
  for (; length > room && !line.empty(); --length) {
    while (continues_character(line.back())) line.pop_back();
    line.pop_back();
  }
  return line;
}

}  // namespace orthornn::program
