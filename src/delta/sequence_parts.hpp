#pragma once

#include <algorithm>

#include "core/parallel.hpp"
#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// Calls body(i, head) for i below `count` and every head, on all threads.
template <class Body>
void for_each_head(Index count, Index heads, const Body& body) {
  parallel_for(count * heads, 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) body(i / heads, i % heads);
  });
}

/// Some values of the states of one head.
struct ValueRange {
  Index head, first, count;
};

/// Calls body(sequence, values) for the states of all sequences and heads, on all threads. The values of a
/// state do not mix. So few states still use all threads: each is cut into ranges of values, at multiples of
/// `grain`.
template <class Body>
void for_each_state(Index sequences, Index heads, Index values, Index grain, const Body& body) {
  const Index pairs = sequences * heads;
  const Index wanted = std::max<Index>(1, thread_count() / std::max<Index>(1, pairs));
  const Index grains = (values + grain - 1) / grain;
  const Index width = std::max<Index>(1, (grains + wanted - 1) / wanted * grain);
  Index parts = (values + width - 1) / width;
  // Eigen multiplies a matrix of one row in another order: one value stays with those before it.
  if (parts > 1 && values % width == 1) --parts;
  for_each_head(pairs, parts, [&](Index pair, Index part) {
    const Index first = part * width;
    body(pair / heads,
         ValueRange{
             .head = pair % heads, .first = first, .count = part + 1 == parts ? values - first : width});
  });
}

/// Sequences cut into parts of so many tokens, the last of a sequence maybe of fewer, and the parts numbered
/// through.
class SequenceParts {
 public:
  struct Part {
    /// Of which sequence, and where in it.
    Index sequence, first_token, tokens;
  };

  /// A part has at most `wanted` tokens, at least one, and no more than the longest sequence. Pushes one
  /// tensor on `saved`, which the parts refer to.
  SequenceParts(const TokenLayout& layout, Index wanted, Saved& saved)
      : layout_(layout),
        part_tokens_(std::clamp(wanted, Index{1}, std::max(Index{1}, layout.longest()))),
        first_(saved.push<Index>({layout.size() + 1})) {
    first_(0) = 0;
    for (Index b = 0; b < layout.size(); ++b) {
      const Index count = layout[b].count;
      first_(b + 1) = first_(b) + (count == 0 ? 0 : (count - 1) / part_tokens_ + 1);
    }
  }

  /// Bytes of the tensor that is pushed.
  static std::size_t bytes(const TokenLayout& layout) {
    return Saved::bytes_of({layout.size() + 1}, sizeof(Index));
  }

  Index size() const { return first_(layout_.size()); }
  /// Of a part that no sequence ends.
  Index part_tokens() const { return part_tokens_; }
  /// The part with which a sequence begins, and one past its last.
  Index begin(Index sequence) const { return first_(sequence); }
  Index end(Index sequence) const { return first_(sequence + 1); }
  Part operator[](Index part) const {
    const Index* after = std::upper_bound(first_.begin(), first_.end(), part);
    const Index sequence = after - first_.begin() - 1;
    const Index first_token = (part - first_(sequence)) * part_tokens_;
    return {sequence, first_token, std::min(part_tokens_, layout_[sequence].count - first_token)};
  }

 private:
  const TokenLayout& layout_;
  Index part_tokens_;
  TensorView<Index> first_;
};

}  // namespace orthornn
