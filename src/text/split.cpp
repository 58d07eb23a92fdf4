#include "orthornn/text/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/scalar/philox.hpp"
#include "orthornn/text/normalization.hpp"

namespace orthornn {
namespace {

/// FNV-1a of 64 bits (Fowler, Noll and Vo).
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

/// Where a sentence comes in the random order of a seed.
std::uint64_t place_of(std::string_view sentence, std::uint64_t seed) {
  const auto words = PhiloxStream(seed, RandomPurpose::split, hash_of(sentence)).block(0);
  return std::uint64_t{words[0]} << 32 | words[1];
}

Index share_of(double share, std::size_t count) {
  if (share == 0) return 0;
  return std::max<Index>(std::llround(share * static_cast<double>(count)), 1);
}

}  // namespace

SplitPairs split_pairs(std::vector<SentencePair> pairs, Column column, const SplitShares& shares,
                       std::uint64_t seed) {
  check_fields("the split", shares);
  enum class Side { training, validation, test };
  using Sides = std::unordered_map<std::string, Side>;
  Sides sides;
  std::vector<const Side*> side_of_pair;
  side_of_pair.reserve(pairs.size());
  for (const SentencePair& pair : pairs) {
    const auto [entry, is_new] = sides.try_emplace(
        normalize(sentence_of(pair, column), {.lower_case = true, .strip_accents = true}), Side::training);
    side_of_pair.push_back(&entry->second);
  }

  const Index validation = share_of(shares.validation, sides.size());
  const Index test = share_of(shares.test, sides.size());
  if (validation + test >= static_cast<Index>(sides.size())) {
    throw ValueError(fmt::format(
        "the split of {} distinct sentences has {} for validation and {} for the test, which leaves "
        "none for training; expected smaller shares or more sentences",
        sides.size(), validation, test));
  }

  // The held-out sentences are the first of a random order; equal places are ordered by the sentences.
  struct Placed {
    std::uint64_t place;
    Sides::value_type* entry;
  };
  std::vector<Placed> order;
  order.reserve(sides.size());
  for (Sides::value_type& entry : sides) order.push_back({place_of(entry.first, seed), &entry});
  std::ranges::sort(order, {},
                    [](const Placed& at) { return std::pair(at.place, std::string_view(at.entry->first)); });
  for (Index i = 0; i < validation + test; ++i)
    order[static_cast<std::size_t>(i)].entry->second = i < validation ? Side::validation : Side::test;

  SplitPairs split;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Side side = *side_of_pair[i];
    auto& to = side == Side::training     ? split.training
               : side == Side::validation ? split.validation
                                          : split.test;
    to.push_back(std::move(pairs[i]));
  }
  return split;
}

}  // namespace orthornn
