#pragma once

#include <vector>

#include "orthornn/tasks/finite_group.hpp"

namespace orthornn {

/// A word problem (docs/math.md, section 8): symbol s is the element elements[s], and the class of a step or
/// of a sequence is the number of the product of its symbols, the first one done first.
struct GroupWords {
  /// Group of the elements.
  FiniteGroup group;
  /// Number of the element that each symbol stands for.
  std::vector<Index> elements;
};

}  // namespace orthornn
