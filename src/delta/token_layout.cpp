#include "orthornn/delta/token_layout.hpp"

#include <fmt/format.h>

namespace orthornn {
namespace {

/// Sequence b of a padded layout, whose first token is row `first`.
TokenLayout::Sequence padded(Index first, Index stride, Index length, ConstTensorView<std::int32_t> lengths,
                             Index b) {
  if (lengths.empty()) return {first, stride, length};
  const Index count = lengths(b);
  if (count < 0 || count > length)
    throw ValueError(fmt::format("sequence {} has length {}, expected 0 to {}", b, count, length));
  return {first, stride, count};
}

void check_padded(Index length, Index batch, ConstTensorView<std::int32_t> lengths) {
  if (length < 0 || batch < 0)
    throw ShapeError(fmt::format("{} sequences of {} tokens; expected sizes of 0 or more", batch, length));
  if (!lengths.empty()) check_shape("lengths of sequences", lengths.shape(), {batch});
}

}  // namespace

TokenLayout::TokenLayout(Index rows, std::vector<Sequence> sequences)
    : rows_(rows), sequences_(std::move(sequences)) {
  for (const Sequence& sequence : sequences_) tokens_ += sequence.count;
}

TokenLayout TokenLayout::time_major(Index length, Index batch, ConstTensorView<std::int32_t> lengths) {
  check_padded(length, batch, lengths);
  std::vector<Sequence> sequences;
  for (Index b = 0; b < batch; ++b) sequences.push_back(padded(b, batch, length, lengths, b));
  return {Shape{length, batch}.count(), std::move(sequences)};
}

TokenLayout TokenLayout::sequence_major(Index batch, Index length, ConstTensorView<std::int32_t> lengths) {
  check_padded(length, batch, lengths);
  std::vector<Sequence> sequences;
  for (Index b = 0; b < batch; ++b) sequences.push_back(padded(b * length, 1, length, lengths, b));
  return {Shape{batch, length}.count(), std::move(sequences)};
}

TokenLayout TokenLayout::packed(std::span<const Index> offsets) {
  if (offsets.empty()) throw ValueError("a packed layout has no offsets; expected B + 1 for B sequences");
  if (offsets.front() != 0)
    throw ValueError(
        fmt::format("the offsets of a packed layout begin with {}, expected 0", offsets.front()));
  std::vector<Sequence> sequences;
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    if (offsets[b + 1] < offsets[b])
      throw ValueError(fmt::format("the offsets of a packed layout fall from {} to {} at sequence {}",
                                   offsets[b], offsets[b + 1], b));
    sequences.push_back({offsets[b], 1, offsets[b + 1] - offsets[b]});
  }
  return {offsets.back(), std::move(sequences)};
}

}  // namespace orthornn
