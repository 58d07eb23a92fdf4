#pragma once

#include <string>

namespace orthornn::program {

/// The text as a cell of a CSV file: in quotation marks where it has a comma, a quotation mark or an end of a
/// line.
inline std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace orthornn::program
