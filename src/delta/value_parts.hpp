#pragma once

#include <algorithm>

#include "core/parallel.hpp"

namespace orthornn {

/// The values of a state do not mix. So the states of few pairs of sequence and head still use all threads:
/// each is cut into ranges of values, at multiples of `grain`.
class ValueParts {
 public:
  struct Part {
    Index pair, first, count;
  };

  ValueParts(Index pairs, Index values, Index grain) : pairs_(pairs), values_(values) {
    const Index wanted = std::max<Index>(1, thread_count() / std::max<Index>(1, pairs));
    const Index grains = (values + grain - 1) / grain;
    width_ = std::max<Index>(1, (grains + wanted - 1) / wanted * grain);
    parts_ = (values + width_ - 1) / width_;
  }

  Index size() const { return pairs_ * parts_; }
  Part operator[](Index i) const {
    const Index first = i % parts_ * width_;
    return {i / parts_, first, std::min(width_, values_ - first)};
  }

 private:
  Index pairs_, values_, width_, parts_;
};

}  // namespace orthornn
