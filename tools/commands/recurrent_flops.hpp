#pragma once

#include "commands/pass_table.hpp"

namespace orthornn::program {

/// What the recurrent form of a delta product needs for so many tokens of all heads, with n factors each.
inline Flops recurrent_flops(double tokens, double key, double value, double n) {
  return {.forward = 2 * tokens * key * value * (2 * n + 1),
          .backward = 2 * tokens * key * value * (7 * n + 2)};
}

}  // namespace orthornn::program
