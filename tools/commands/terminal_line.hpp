#pragma once

#include <string>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn::program {

/// Columns of the terminal behind a file descriptor. Where it does not tell, those of the variable COLUMNS,
/// or 80.
Index terminal_columns(int descriptor);

/// A part of a line. Where the line is too long, parts of the largest rank are left out first.
struct LinePart {
  int rank = 0;
  std::string text;
};

/// The parts that fit into one line of a terminal, one after the other. What is left of too long a line is
/// cut. The last column stays free, as a terminal wraps where it is filled.
std::string fitted_line(std::vector<LinePart> parts, Index columns);

}  // namespace orthornn::program
