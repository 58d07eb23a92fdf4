#pragma once
// Corpus BLEU (Papineni, Roukos, Ward and Zhu, "BLEU: a method for automatic evaluation of machine
// translation", ACL 2002) with the defaults of sacreBLEU 2: tokens 13a, n-grams of 1 to 4 words, letters
// as they are, exponential smoothing (method 3 of Chen and Cherry, "A systematic comparison of smoothing
// techniques for sentence-level BLEU", WMT 2014).
//
//   const BleuScore score = bleu(bleu_statistics(hypotheses, references));
//   std::cout << score_text(score) << "\n" << score.signature << "\n";

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/corpus_size.hpp"

namespace orthornn {

inline constexpr std::size_t bleu_orders = 4;

/// What BLEU is computed from. The statistics of the shares of a corpus add up to those of the corpus.
/// Element n - 1 of an array belongs to n-grams of n words.
struct BleuStatistics {
  CorpusSize size;
  /// In words.
  Index hypothesis_length = 0;
  /// In words, of the reference of each sentence whose length is closest to the hypothesis, the shorter of
  /// two as close.
  Index reference_length = 0;
  /// N-grams of the hypotheses.
  std::array<Index, bleu_orders> ngrams{};
  /// Those that a reference has too. An n-gram matches at most as often as it is in one reference.
  std::array<Index, bleu_orders> matches{};

  /// Throws as `CorpusSize`.
  BleuStatistics& operator+=(const BleuStatistics& share);
  bool operator==(const BleuStatistics&) const = default;
};

/// One sentence. Throws ValueError for no references and for text that is not UTF-8.
BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references);
/// A corpus, or a share of it, which may be empty: references[r][i] is reference r of sentence i. Throws
/// ValueError as for one sentence, and when hypotheses and a reference have different numbers of lines.
BleuStatistics bleu_statistics(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references);

struct BleuScore {
  /// 0 to 100.
  double score = 0;
  /// Of 1 to 4 words, smoothed, in per cent; all 0 when no word matches.
  std::array<double, bleu_orders> precisions{};
  double brevity_penalty = 1;
  Index hypothesis_length = 0;
  Index reference_length = 0;
  /// What the score depends on, in sacreBLEU's notation:
  /// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:orthornn-0.1.0".
  std::string signature;
};

/// Throws ValueError for statistics of no sentence.
BleuScore bleu(const BleuStatistics& statistics);

/// "BLEU = 34.12 66.7/42.1/27.5/18.2 (BP = 0.990 ratio = 0.990 hyp_len = 990 ref_len = 1000)"
std::string score_text(const BleuScore& score);

}  // namespace orthornn
