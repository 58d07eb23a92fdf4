#pragma once

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Sum of term(0) .. term(count - 1) in double. Eight partial sums keep a vector unit busy; their order
/// depends on `count` alone.
template <class Term>
double sum_of(Index count, const Term& term) {
  constexpr Index lanes = 8;
  double partial[lanes] = {};
  Index n = 0;
  for (; n + lanes <= count; n += lanes) {
    for (Index k = 0; k < lanes; ++k) partial[k] += static_cast<double>(term(n + k));
  }
  double sum = 0;
  for (; n < count; ++n) sum += static_cast<double>(term(n));
  for (const double part : partial) sum += part;
  return sum;
}

}  // namespace orthornn
