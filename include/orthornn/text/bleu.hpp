#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/corpus_size.hpp"

namespace orthornn {

/// Largest number of words of BLEU's n-grams.
inline constexpr std::size_t bleu_orders = 4;

/// Counts from which BLEU is computed. The statistics of the shares of a corpus add up to those of the
/// corpus. Element n - 1 of an array belongs to n-grams of n words.
struct BleuStatistics {
  /// Number of sentences and of references.
  CorpusSize size;
  /// Length of the hypotheses in words.
  Index hypothesis_length = 0;
  /// Length of the references in words. For each sentence the reference counts whose length is closest to the
  /// hypothesis; of two that are equally close, the shorter one.
  Index reference_length = 0;
  /// Number of n-grams of the hypotheses.
  std::array<Index, bleu_orders> ngrams{};
  /// Number of n-grams of the hypotheses that a reference has too. An n-gram matches at most as often as it
  /// is in one reference.
  std::array<Index, bleu_orders> matches{};

  /// Adds the statistics of another share of the corpus. Throws as the sum of CorpusSize.
  BleuStatistics& operator+=(const BleuStatistics& share);
  bool operator==(const BleuStatistics&) const = default;
};

/// Counts the statistics of one sentence. Throws ValueError for no references and for text that is not UTF-8.
BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references);
/// Counts the statistics of a corpus, or of a share of it, which may be empty: references[r][i] is reference
/// r of sentence i. Throws ValueError as for one sentence, and when hypotheses and a reference have different
/// numbers of lines.
BleuStatistics bleu_statistics(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references);

/// BLEU of a corpus.
struct BleuScore {
  /// Score, 0 to 100.
  double score = 0;
  /// Precisions of n-grams of 1 to 4 words, smoothed, in per cent; all 0 when no word matches.
  std::array<double, bleu_orders> precisions{};
  /// Brevity penalty, 0 to 1.
  double brevity_penalty = 1;
  /// Length of the hypotheses in words.
  Index hypothesis_length = 0;
  /// Length of the references in words.
  Index reference_length = 0;
  /// Settings that the score depends on, in sacreBLEU's notation:
  /// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:orthornn-0.1.0".
  std::string signature;
};

/// Computes corpus BLEU (Papineni, Roukos, Ward and Zhu, "BLEU: a method for automatic evaluation of machine
/// translation", ACL 2002) with the defaults of sacreBLEU 2: tokens 13a, n-grams of 1 to 4 words, letters as
/// they are, exponential smoothing (method 3 of Chen and Cherry, "A systematic comparison of smoothing
/// techniques for sentence-level BLEU", WMT 2014). Throws ValueError for statistics of no sentence.
///
///     const BleuScore score = bleu(bleu_statistics(hypotheses, references));
///     std::cout << score_text(score) << "\n" << score.signature << "\n";
BleuScore bleu(const BleuStatistics& statistics);

/// The score as sacreBLEU prints it:
///
///     BLEU = 34.12 66.7/42.1/27.5/18.2 (BP = 0.990 ratio = 0.990 hyp_len = 990 ref_len = 1000)
std::string score_text(const BleuScore& score);

}  // namespace orthornn
