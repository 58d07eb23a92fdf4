#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// How many there are of what is named in the singular: "1 clip", "3 clips".
inline std::string quantity(Index count, std::string_view name) {
  return fmt::format("{} {}{}", count, name, count == 1 ? "" : "s");
}

}  // namespace orthornn
