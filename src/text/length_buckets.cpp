#include "orthornn/text/length_buckets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"

namespace orthornn {
namespace {

constexpr std::size_t batches_of_bucket = 16;

}  // namespace

LengthBuckets::LengthBuckets(std::span<const PairLength> lengths, Index batch_size, std::uint64_t seed)
    : sorted_(lengths.size()), batch_size_(static_cast<std::size_t>(batch_size)), seed_(seed) {
  if (batch_size < 1) throw ValueError(fmt::format("the batch size is {}; expected 1 or more", batch_size));
  if (lengths.empty() || lengths.size() > std::numeric_limits<std::int32_t>::max())
    throw ValueError(fmt::format("{} pairs were given; expected 1 to 2^31 - 1", lengths.size()));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i].source < 0 || lengths[i].target < 0) {
      throw ValueError(fmt::format("pair {} has the lengths {} and {}; expected 0 or more", i,
                                   lengths[i].source, lengths[i].target));
    }
  }
  std::iota(sorted_.begin(), sorted_.end(), 0);
  std::ranges::sort(sorted_, {}, [&](std::int32_t pair) {
    const PairLength& length = lengths[static_cast<std::size_t>(pair)];
    return std::tuple(length.source, length.target, pair);
  });
}

Index LengthBuckets::batches() const { return static_cast<Index>((sorted_.size() - 1) / batch_size_ + 1); }

void LengthBuckets::epoch(std::uint64_t number, EpochBatches& batches) const {
  RandomStream stream(seed_, RandomPurpose::shuffle, number);
  // No batch is larger than all pairs: with a huge one the products would not fit.
  const std::size_t size = std::min(batch_size_, sorted_.size());
  batches.batch_size_ = size;
  batches.pairs_ = sorted_;
  for (std::span<std::int32_t> left(batches.pairs_); !left.empty();) {
    const std::span<std::int32_t> bucket = left.first(std::min(batches_of_bucket * size, left.size()));
    shuffle(bucket, stream);
    left = left.subspan(bucket.size());
  }
  batches.order_.clear();
  for (std::size_t first = 0; first < sorted_.size(); first += size) batches.order_.push_back(first);
  shuffle(std::span(batches.order_), stream);
}

}  // namespace orthornn
