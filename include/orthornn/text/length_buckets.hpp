#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "orthornn/core/shape.hpp"

namespace orthornn {

/// Lengths of the two sentences of a pair.
struct PairLength {
  Index source = 0;  ///< Tokens of the source.
  Index target = 0;  ///< Tokens of the target.
};

/// The batches of an epoch, each as the numbers of its pairs.
class EpochBatches {
 public:
  /// Number of batches.
  Index count() const { return static_cast<Index>(order_.size()); }
  /// Numbers of the pairs in a batch. The index is not checked.
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

/// Makes batches of pairs of similar length, so that they have little padding. Pairs are sorted by source
/// length and then by target length, and every 16 batches of them are a bucket. Each epoch puts the pairs of
/// a bucket in a new order before it cuts them into batches, and then the batches of all buckets in a new
/// order.
class LengthBuckets {
 public:
  /// Sorts pairs of these lengths. Throws ValueError for no pairs, more than 2^31 - 1 pairs, a negative
  /// length, or a batch size below 1.
  LengthBuckets(std::span<const PairLength> lengths, Index batch_size, std::uint64_t seed);

  /// Number of batches of an epoch.
  Index batches() const;
  /// Fills `batches` with the batches of epoch `number`. They have every pair once, `batch_size` pairs in
  /// each batch but one, which may have fewer. Seed and number decide the order, on every machine alike.
  /// Memory is taken for the first epoch alone.
  void epoch(std::uint64_t number, EpochBatches& batches) const;

 private:
  /// Numbers of the pairs, sorted by length.
  std::vector<std::int32_t> sorted_;
  std::size_t batch_size_;
  std::uint64_t seed_;
};

}  // namespace orthornn
