#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Tokens of a pair.
struct PairLength {
  Index source = 0;
  Index target = 0;
};

/// The numbers of the pairs in each batch of an epoch.
class EpochBatches {
 public:
  Index count() const { return static_cast<Index>(order_.size()); }
  std::span<const std::int32_t> operator[](Index batch) const {
    const std::size_t first = order_[static_cast<std::size_t>(batch)];
    return std::span(pairs_).subspan(first, std::min(batch_size_, pairs_.size() - first));
  }

 private:
  friend class LengthBuckets;
  std::vector<std::int32_t> pairs_;
  /// Where each batch begins among the pairs.
  std::vector<std::size_t> order_;
  std::size_t batch_size_ = 1;
};

/// Batches of pairs of similar length, so that little of them is padding. Pairs are sorted by source length
/// and then by target length, and every 16 batches of them are a bucket. Each epoch puts the pairs of a
/// bucket in a new order before it cuts them into batches, and then the batches of all buckets in a new
/// order.
class LengthBuckets {
 public:
  /// Throws ValueError for no pairs, more than 2^31 - 1, a negative length, or a batch size below 1.
  LengthBuckets(std::span<const PairLength> lengths, Index batch_size, std::uint64_t seed);

  /// Batches of an epoch.
  Index batches() const;
  /// Every pair once, `batch_size` pairs in each batch but one, which may have fewer. The seed and the number
  /// of the epoch decide, on every machine alike. Memory is taken for the first epoch alone.
  void epoch(std::uint64_t number, EpochBatches& batches) const;

 private:
  /// By length.
  std::vector<std::int32_t> sorted_;
  std::size_t batch_size_;
  std::uint64_t seed_;
};

}  // namespace orthornn
