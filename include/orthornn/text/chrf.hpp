#pragma once
// Corpus chrF2 (Popović, "chrF: character n-gram F-score for automatic MT evaluation", WMT 2015) with the
// defaults of sacreBLEU 2: n-grams of 1 to 6 characters without white space, no words, letters as they are,
// recall with weight β = 2. A character is a Unicode code point.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/corpus_size.hpp"

namespace orthornn {

inline constexpr std::size_t chrf_orders = 6;

/// What chrF is computed from. The statistics of the shares of a corpus add up to those of the corpus.
/// Element n - 1 of an array belongs to n-grams of n characters. Of several references of a sentence, the
/// one with the best score for this sentence is counted, the first of several.
struct ChrfStatistics {
  CorpusSize size;
  /// N-grams of the hypotheses. A sentence whose reference has no n-grams of an order adds nothing to it.
  std::array<Index, chrf_orders> hypothesis_ngrams{};
  std::array<Index, chrf_orders> reference_ngrams{};
  /// An n-gram matches as often as it is in both texts.
  std::array<Index, chrf_orders> matches{};

  /// Throws as `CorpusSize`.
  ChrfStatistics& operator+=(const ChrfStatistics& share);
  bool operator==(const ChrfStatistics&) const = default;
};

/// One sentence. Throws ValueError for no references and for text that is not UTF-8.
ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references);
/// A corpus, or a share of it, which may be empty: references[r][i] is reference r of sentence i. Throws
/// ValueError as for one sentence, and when hypotheses and a reference have different numbers of lines.
ChrfStatistics chrf_statistics(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references);

struct ChrfScore {
  /// 0 to 100: the F-score of mean precision and mean recall over those orders that both texts have.
  double score = 0;
  /// What the score depends on, in sacreBLEU's notation:
  /// "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:orthornn-0.1.0".
  std::string signature;
};

/// Throws ValueError for statistics of no sentence.
ChrfScore chrf(const ChrfStatistics& statistics);

/// "chrF2 = 59.73"
std::string score_text(const ChrfScore& score);

}  // namespace orthornn
