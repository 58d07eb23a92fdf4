#include "orthornn/delta/token_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "core/lent_memory.hpp"

namespace orthornn {
namespace {

/// Sequence b of a padded layout, whose first token is row `first`.
TokenLayout::Sequence padded(Index first, Index stride, Index length, ConstTensorView<std::int32_t> lengths,
                             Index b) {
  if (lengths.empty()) return {first, stride, length};
  const Index count = lengths(b);
  if (count < 0 || count > length)
    throw ValueError(fmt::format("lengths[{}] is {}, expected 0 to {}", b, count, length));
  return {first, stride, count};
}

/// R. Throws ShapeError for negative sizes and too many rows.
Index padded_rows(Index length, Index batch, ConstTensorView<std::int32_t> lengths) {
  if (!lengths.empty()) check_shape("lengths of sequences", lengths.shape(), {batch});
  return Shape{length, batch}.count();
}

}  // namespace

class TokenLayout::Tables {
 public:
  void add(Tensor<Index> table) {
    const std::lock_guard lock(mutex_);
    tables_.push_back(std::move(table));
  }
  TensorView<const Index> on(Device device, const std::vector<Sequence>& sequences) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(tables_.begin(), tables_.end(),
                                    [&](const Tensor<Index>& table) { return table.device() == device; });
    if (found != tables_.end()) return std::as_const(*found);
    // An operation may run in memory that its caller lends, and a table outlives it.
    const LentMemory::Pause pause;
    Tensor<Index> table({static_cast<Index>(sequences.size()), 4});
    Index before = 0;
    for (Index b = 0; b < table.shape()[0]; ++b) {
      const Sequence& sequence = sequences[static_cast<std::size_t>(b)];
      table(b, 0) = sequence.first;
      table(b, 1) = sequence.stride;
      table(b, 2) = sequence.count;
      table(b, 3) = before;
      before += sequence.count;
    }
    tables_.push_back(table.copy(device));
    return std::as_const(tables_.back());
  }

 private:
  std::mutex mutex_;
  /// Views of a table stay valid when another one is added.
  std::list<Tensor<Index>> tables_;
};

TensorView<const Index> TokenLayout::on(Device device) const { return tables_->on(device, sequences_); }

void TokenLayout::use_table(TensorView<Index> table) const {
  check_shape("table of a layout", table.shape(), {size(), 4});
  tables_->add(Tensor<Index>::adopt(table.data(), table.shape(), table.device(), [](Index*) {}));
}

TokenLayout::TokenLayout(Index rows, std::vector<Sequence> sequences)
    : rows_(rows), sequences_(std::move(sequences)), tables_(std::make_shared<Tables>()) {
  for (const Sequence& sequence : sequences_) {
    tokens_ += sequence.count;
    longest_ = std::max(longest_, sequence.count);
  }
  const Index distance = sequences_.size() > 1 ? sequences_[1].first : 0;
  Index first = 0;
  for (const Sequence& sequence : sequences_) {
    is_regular_ = sequence.first == first && sequence.stride == sequences_[0].stride &&
                  sequence.count == sequences_[0].count;
    if (!is_regular_) break;
    first += distance;
  }
}

TokenLayout TokenLayout::time_major(Index length, Index batch, ConstTensorView<std::int32_t> lengths) {
  const Index rows = padded_rows(length, batch, lengths);
  std::vector<Sequence> sequences;
  for (Index b = 0; b < batch; ++b) sequences.push_back(padded(b, batch, length, lengths, b));
  return {rows, std::move(sequences)};
}

TokenLayout TokenLayout::sequence_major(Index batch, Index length, ConstTensorView<std::int32_t> lengths) {
  const Index rows = padded_rows(length, batch, lengths);
  std::vector<Sequence> sequences;
  for (Index b = 0; b < batch; ++b) sequences.push_back(padded(b * length, 1, length, lengths, b));
  return {rows, std::move(sequences)};
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
