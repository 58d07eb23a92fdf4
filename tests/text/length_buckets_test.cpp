#include "orthornn/text/length_buckets.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <set>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/core/random.hpp"
#include "support/catch.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Batches = std::vector<std::vector<std::int32_t>>;

/// Source lengths 1 to 30, and targets up to 3 tokens longer or shorter.
std::vector<PairLength> some_lengths(Index count) {
  RandomStream random(1, RandomPurpose::test);
  std::vector<PairLength> lengths;
  for (Index i = 0; i < count; ++i) {
    const Index source = 1 + random.integer(30);
    lengths.push_back({source, std::max<Index>(source + random.integer(7) - 3, 1)});
  }
  return lengths;
}

Batches epoch_of(const LengthBuckets& buckets, std::uint64_t number) {
  EpochBatches epoch;
  buckets.epoch(number, epoch);
  Batches batches;
  for (Index i = 0; i < epoch.count(); ++i) batches.emplace_back(epoch[i].begin(), epoch[i].end());
  return batches;
}

/// The share of padding in batches that are as long as their longest source and target.
double padding(const Batches& batches, const std::vector<PairLength>& lengths) {
  Index tokens = 0, places = 0;
  for (const auto& batch : batches) {
    PairLength longest;
    for (const std::int32_t pair : batch) {
      const PairLength& length = lengths[static_cast<std::size_t>(pair)];
      tokens += length.source + length.target;
      longest = {std::max(longest.source, length.source), std::max(longest.target, length.target)};
    }
    places += (longest.source + longest.target) * static_cast<Index>(batch.size());
  }
  return 1 - static_cast<double>(tokens) / static_cast<double>(places);
}

std::vector<std::int32_t> sorted_pairs(const Batches& batches) {
  std::vector<std::int32_t> pairs;
  for (const auto& batch : batches) pairs.insert(pairs.end(), batch.begin(), batch.end());
  std::ranges::sort(pairs);
  return pairs;
}

std::set<std::set<std::int32_t>> as_sets(const Batches& batches) {
  std::set<std::set<std::int32_t>> sets;
  for (const auto& batch : batches) sets.emplace(batch.begin(), batch.end());
  return sets;
}

}  // namespace

TEST_CASE("Every pair is in one batch of an epoch", "[text]") {
  const Index count = GENERATE(1, 7, 8, 9, 1000, 1024, 1027);
  const Index batch_size = GENERATE(Index{1}, Index{8}, Index{2000}, Index{1} << 62);
  const LengthBuckets buckets(some_lengths(count), batch_size, 1);
  for (const std::uint64_t epoch : {0, 1, 7}) {
    const Batches batches = epoch_of(buckets, epoch);
    CHECK(static_cast<Index>(batches.size()) == buckets.batches());
    std::vector<std::int32_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    CHECK(sorted_pairs(batches) == all);
    const Index small = std::ranges::count_if(
        batches, [&](const auto& batch) { return static_cast<Index>(batch.size()) < batch_size; });
    CHECK(small == (count % batch_size == 0 ? 0 : 1));
    CHECK(std::ranges::all_of(batches, [&](const auto& batch) {
      return !batch.empty() && static_cast<Index>(batch.size()) <= batch_size;
    }));
  }
}

TEST_CASE("Pairs of a batch have similar lengths", "[text]") {
  const std::vector<PairLength> lengths = some_lengths(20'000);
  const Batches bucketed = epoch_of(LengthBuckets(lengths, 32, 1), 0);
  Batches mixed;
  for (std::int32_t pair = 0; pair < 20'000; ++pair) {
    if (pair % 32 == 0) mixed.emplace_back();
    mixed.back().push_back(pair);
  }
  // Of a mixed batch half is padding. A bucket of 512 pairs spans at most two of 30 source lengths, and
  // most of the 7 target lengths.
  CHECK(padding(mixed, lengths) > 0.4);
  CHECK(padding(bucketed, lengths) < 0.1);
}

TEST_CASE("Seed and epoch decide the batches", "[text]") {
  const std::vector<PairLength> lengths = some_lengths(1000);
  const LengthBuckets buckets(lengths, 8, 1);
  const Batches first = epoch_of(buckets, 0);
  CHECK(first == epoch_of(buckets, 0));
  CHECK(first == epoch_of(LengthBuckets(lengths, 8, 1), 0));
  for (const Batches& other : {epoch_of(buckets, 1), epoch_of(LengthBuckets(lengths, 8, 2), 0)}) {
    CHECK(first != other);
    // Not only their order: other pairs come together.
    CHECK(as_sets(first) != as_sets(other));
  }
}

TEST_CASE("Batches come in an order that has nothing to do with their length", "[text]") {
  const std::vector<PairLength> lengths = some_lengths(8000);
  const Batches batches = epoch_of(LengthBuckets(lengths, 8, 1), 0);
  Index first_half = 0, all = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Index length = lengths[static_cast<std::size_t>(batches[i].front())].source;
    all += length;
    if (i < batches.size() / 2) first_half += length;
  }
  // 500 lengths with a deviation of 8.7: their mean has one of 0.4.
  CHECK(std::abs(static_cast<double>(first_half) / 500 - static_cast<double>(all) / 1000) < 2);
}

TEST_CASE("Batches of a seed are the same on every machine", "[text]") {
  const std::vector<PairLength> lengths{{5, 5}, {1, 1}, {3, 3}, {2, 2}, {4, 4}};
  CHECK(epoch_of(LengthBuckets(lengths, 2, 1), 0) == Batches{{3}, {1, 2}, {0, 4}});
}

TEST_CASE("Buckets of nothing are refused", "[text]") {
  const std::vector<PairLength> one{{1, 1}}, negative{{1, 1}, {2, -1}};
  CHECK_THROWS_WITH(LengthBuckets({}, 8, 1), contains("0 pairs were given"));
  CHECK_THROWS_WITH(LengthBuckets(one, 0, 1), contains("the batch size is 0"));
  CHECK_THROWS_WITH(LengthBuckets(negative, 8, 1), contains("pair 1 has the lengths 2 and -1"));
}
