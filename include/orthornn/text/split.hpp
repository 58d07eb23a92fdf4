#pragma once

#include <cstdint>
#include <vector>

#include "orthornn/text/parallel_text.hpp"

namespace orthornn {

/// Shares of the distinct sentences that no training sees.
struct SplitShares {
  /// Share of the sentences for validation, 0 to below 1.
  double validation = 0.05;
  /// Share of the sentences for the test, 0 to below 1.
  double test = 0.05;

  static void fields(auto&& visit) {
    visit("validation", &SplitShares::validation, domain::below_one, "share of the sentences for validation");
    visit("test", &SplitShares::test, domain::below_one, "share of the sentences for the test");
  }
};

/// Sentence pairs in three sets, each in the order that the pairs had.
struct SplitPairs {
  std::vector<SentencePair> training;    ///< Pairs for training.
  std::vector<SentencePair> validation;  ///< Pairs for choices during a training.
  std::vector<SentencePair> test;        ///< Pairs for the figure at the end alone.
};

/// Splits pairs by the distinct sentences of one column. All pairs with one sentence in that column are in
/// one set, so a training has not seen a sentence of the test with another translation. In files of
/// tatoeba.org an English sentence has several translations: name the English column for each direction, and
/// the two splits are equal. Sentences that differ only in case, accents, white space or spaces around
/// punctuation count as one (`normalize` with its two options).
///
/// A share is rounded to whole sentences; a share above 0 is at least one sentence. The seed and the set of
/// distinct sentences decide, not the order or the number of their pairs. Throws ValueError for a share
/// outside its domain, for text that is not UTF-8, and when no sentence would be left for training.
SplitPairs split_pairs(std::vector<SentencePair> pairs, Column column, const SplitShares& shares,
                       std::uint64_t seed);

}  // namespace orthornn
