#pragma once

#include <algorithm>

#include "core/parallel.hpp"

namespace orthornn {

/// Calls body(sequence, head, first value, number of values) for the states of all sequences and heads, on
/// all threads. The values of a state do not mix. So few states still use all threads: each is cut into
/// ranges of values, at multiples of `grain`.
template <class Body>
void for_each_state(Index sequences, Index heads, Index values, Index grain, const Body& body) {
  const Index pairs = sequences * heads;
  const Index wanted = std::max<Index>(1, thread_count() / std::max<Index>(1, pairs));
  const Index grains = (values + grain - 1) / grain;
  const Index width = std::max<Index>(1, (grains + wanted - 1) / wanted * grain);
  Index parts = (values + width - 1) / width;
  // Eigen multiplies a matrix of one row in another order: one value stays with those before it.
  if (parts > 1 && values % width == 1) --parts;
  parallel_for(pairs * parts, 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index pair = i / parts, part = i % parts, first = part * width;
      body(pair / heads, pair % heads, first, part + 1 == parts ? values - first : width);
    }
  });
}

}  // namespace orthornn
