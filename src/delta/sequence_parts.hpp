#pragma once

#include <algorithm>

#include "orthornn/core/saved.hpp"
#include "orthornn/delta/token_layout.hpp"

namespace orthornn {

/// Sequences cut into parts of `part_tokens` tokens, the last of a sequence maybe of fewer, and the parts
/// numbered through.
class SequenceParts {
 public:
  struct Part {
    /// Of which sequence, and where in it.
    Index sequence, first_token, tokens;
  };

  /// Pushes one tensor on `saved`, which the parts refer to.
  SequenceParts(const TokenLayout& layout, Index part_tokens, Saved& saved)
      : layout_(layout), part_tokens_(part_tokens), first_(saved.push<Index>({layout.size() + 1})) {
    first_(0) = 0;
    for (Index b = 0; b < layout.size(); ++b)
      first_(b + 1) = first_(b) + (layout[b].count + part_tokens - 1) / part_tokens;
  }

  Index size() const { return first_(layout_.size()); }
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
