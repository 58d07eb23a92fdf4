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

/// Calls `take` with one part after another of so many values, the last of which may be smaller.
template <class Take>
void for_each_part(std::span<std::int32_t> values, std::size_t size, const Take& take) {
  while (!values.empty()) {
    const std::span<std::int32_t> part = values.first(std::min(size, values.size()));
    take(part);
    values = values.subspan(part.size());
  }
}

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

std::vector<std::vector<std::int32_t>> LengthBuckets::epoch(std::uint64_t number) const {
  RandomStream stream(seed_, RandomPurpose::shuffle, number);
  std::vector<std::int32_t> order = sorted_;
  std::vector<std::vector<std::int32_t>> batches;
  // No bucket is larger than all pairs: with a huge batch the product would not fit.
  const std::size_t bucket_size = batches_of_bucket * std::min(batch_size_, order.size());
  for_each_part(order, bucket_size, [&](std::span<std::int32_t> bucket) {
    shuffle(bucket, stream);
    for_each_part(bucket, batch_size_,
                  [&](std::span<std::int32_t> batch) { batches.emplace_back(batch.begin(), batch.end()); });
  });
  shuffle(std::span(batches), stream);
  return batches;
}

}  // namespace orthornn
