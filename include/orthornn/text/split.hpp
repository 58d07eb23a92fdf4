#pragma once

#include <cstdint>
#include <vector>

#include "orthornn/text/parallel_text.hpp"

namespace orthornn {

/// Shares of the distinct sentences that no training sees.
struct SplitShares {
  double validation = 0.05;
  double test = 0.05;

  static void fields(auto&& visit) {
    visit("validation", &SplitShares::validation, domain::below_one, "share of the sentences for validation");
    visit("test", &SplitShares::test, domain::below_one, "share of the sentences for the test");
  }
};

/// Each in the order of the pairs they are from.
struct SplitPairs {
  std::vector<SentencePair> training;
  std::vector<SentencePair> validation;
  std::vector<SentencePair> test;
};

/// Splits by the distinct sentences of one column: pairs with one sentence in it are all on one side, so a
/// sentence of the test has not been read in training with another translation. English has several
/// translations in files of tatoeba.org: for both directions, name the column that is English, and the split
/// is the same. Sentences that differ only in case, accents, white space or spaces around punctuation are one
/// (`normalize` with both options).
///
/// A share is rounded to whole sentences; a share above 0 is one at least. The seed and the set of distinct
/// sentences decide, not the order or the number of their pairs. Throws ValueError for a share outside its
/// domain, for text that is not UTF-8, and when no sentence would be left for training.
SplitPairs split_pairs(std::vector<SentencePair> pairs, Column column, const SplitShares& shares,
                       std::uint64_t seed);

}  // namespace orthornn
