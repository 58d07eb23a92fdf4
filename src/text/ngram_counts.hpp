#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// How often each n-gram of one order is in a text, which must outlive the counts.
using NgramCounts = std::unordered_map<std::string_view, Index>;

/// `pieces` are the words or characters of one text in their order. An n-gram is the part of that text from
/// its first piece to its last: equal n-grams have equal bytes if the same bytes separate all pieces.
NgramCounts count_ngrams(const std::vector<std::string_view>& pieces, std::size_t order);

/// The n-grams of a text, repeated ones counted each time.
Index total(const NgramCounts& counts);

/// The n-grams that both have, repeated ones as often as both have them.
Index matches(const NgramCounts& first, const NgramCounts& second);

}  // namespace orthornn
