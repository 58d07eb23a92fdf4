#include "orthornn/text/bleu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orthornn/text/tokenize_13a.hpp"
#include "text/characters.hpp"
#include "text/translation_metrics.hpp"

namespace orthornn {
namespace {

bool is_closer(Index length, Index than, Index to) {
  const Index distance = std::abs(length - to), other = std::abs(than - to);
  return distance < other || (distance == other && length < than);
}

}  // namespace

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& share) {
  size += share.size;
  hypothesis_length += share.hypothesis_length;
  reference_length += share.reference_length;
  add_to(ngrams, share.ngrams);
  add_to(matches, share.matches);
  return *this;
}

BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references) {
  BleuStatistics statistics{.size = one_sentence(references)};
  const std::string tokens = tokenize_13a(hypothesis);
  const std::vector<std::string_view> words = words_of(tokens);
  statistics.hypothesis_length = static_cast<Index>(words.size());

  // 1. Of each n-gram, the largest count of any reference.
  std::vector<std::string> reference_tokens;
  for (const std::string& reference : references) reference_tokens.push_back(tokenize_13a(reference));
  std::array<NgramCounts, bleu_orders> largest_counts;
  for (std::size_t r = 0; r < references.size(); ++r) {
    const std::vector<std::string_view> reference_words = words_of(reference_tokens[r]);
    const auto length = static_cast<Index>(reference_words.size());
    if (r == 0 || is_closer(length, statistics.reference_length, statistics.hypothesis_length)) {
      statistics.reference_length = length;
    }
    for (std::size_t n = 0; n < bleu_orders; ++n) {
      for (const auto& [ngram, count] : count_ngrams(reference_words, n + 1)) {
        Index& largest = largest_counts[n][ngram];
        largest = std::max(largest, count);
      }
    }
  }

  // 2. The hypothesis against them.
  for (std::size_t n = 0; n < bleu_orders; ++n) {
    const NgramCounts counts = count_ngrams(words, n + 1);
    statistics.ngrams[n] = total(counts);
    statistics.matches[n] = matches(counts, largest_counts[n]);
  }
  return statistics;
}

BleuStatistics bleu_statistics(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references) {
  return sum_sentences<BleuStatistics>(hypotheses, references, &bleu_statistics);
}

BleuScore bleu(const BleuStatistics& statistics) {
  BleuScore result{.hypothesis_length = statistics.hypothesis_length,
                   .reference_length = statistics.reference_length,
                   .signature = signature(statistics.size, "case:mixed|eff:no|tok:13a|smooth:exp")};
  const auto length = static_cast<double>(statistics.hypothesis_length);
  const auto reference_length = static_cast<double>(statistics.reference_length);
  if (length < reference_length) {
    result.brevity_penalty = length > 0 ? std::exp(1 - reference_length / length) : 0;
  }
  if (statistics.matches == std::array<Index, bleu_orders>{}) return result;

  // An order without matches has 1/2 of a match, the next such order 1/4, and so on. An order without n-grams
  // has the precision 0, and so has the score.
  double smoothed_matches = 1, sum_of_logarithms = 0;
  for (std::size_t n = 0; n < bleu_orders; ++n) {
    double precision = 0;
    if (statistics.ngrams[n] > 0) {
      auto matching = static_cast<double>(statistics.matches[n]);
      if (statistics.matches[n] == 0) matching = smoothed_matches /= 2;
      precision = matching / static_cast<double>(statistics.ngrams[n]);
    }
    result.precisions[n] = 100 * precision;
    sum_of_logarithms += std::log(precision);
  }
  result.score = 100 * result.brevity_penalty * std::exp(sum_of_logarithms / bleu_orders);
  return result;
}

std::string score_text(const BleuScore& score) {
  const double ratio = score.reference_length > 0 ? static_cast<double>(score.hypothesis_length) /
                                                        static_cast<double>(score.reference_length)
                                                  : 0;
  return fmt::format(
      "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
      score.score, score.precisions[0], score.precisions[1], score.precisions[2], score.precisions[3],
      score.brevity_penalty, ratio, score.hypothesis_length, score.reference_length);
}

}  // namespace orthornn
