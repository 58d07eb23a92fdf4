#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/corpus_size.hpp"

namespace orthornn {

/// Largest number of characters of chrF's n-grams.
inline constexpr std::size_t chrf_orders = 6;

/// Counts from which chrF is computed. The statistics of the shares of a corpus add up to those of the
/// corpus. Element n - 1 of an array belongs to n-grams of n characters. Where a sentence has several
/// references, the reference with the best score for this sentence counts, the first one of equal scores.
struct ChrfStatistics {
  /// Number of sentences and of references.
  CorpusSize size;
  /// Number of n-grams of the hypotheses. A sentence whose reference has no n-grams of an order adds nothing
  /// to the number of that order.
  std::array<Index, chrf_orders> hypothesis_ngrams{};
  /// Number of n-grams of the references.
  std::array<Index, chrf_orders> reference_ngrams{};
  /// Number of n-grams that hypotheses and references have in common. An n-gram matches as often as it is in
  /// each of the two texts.
  std::array<Index, chrf_orders> matches{};

  /// Adds the statistics of another share of the corpus. Throws as the sum of CorpusSize.
  ChrfStatistics& operator+=(const ChrfStatistics& share);
  bool operator==(const ChrfStatistics&) const = default;
};

/// Counts the statistics of one sentence. Throws ValueError for no references and for text that is not UTF-8.
ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references);
/// Counts the statistics of a corpus, or of a share of it, which may be empty: references[r][i] is reference
/// r of sentence i. Throws ValueError as for one sentence, and when hypotheses and a reference have different
/// numbers of lines.
ChrfStatistics chrf_statistics(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references);

/// The metric chrF2 of a corpus.
struct ChrfScore {
  /// Score, 0 to 100: the F-score of mean precision and mean recall over the orders that the two texts have.
  double score = 0;
  /// Settings that the score depends on, in sacreBLEU's notation:
  /// "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:orthornn-0.1.0".
  std::string signature;
};

/// Computes corpus chrF2 (Popović, "chrF: character n-gram F-score for automatic MT evaluation", WMT 2015)
/// with the defaults of sacreBLEU 2: n-grams of 1 to 6 characters without white space, no words, letters as
/// they are, recall with weight β = 2. A character is a Unicode code point. Throws ValueError for statistics
/// of no sentence.
ChrfScore chrf(const ChrfStatistics& statistics);

/// The score as sacreBLEU prints it, such as "chrF2 = 59.73".
std::string score_text(const ChrfScore& score);

}  // namespace orthornn
