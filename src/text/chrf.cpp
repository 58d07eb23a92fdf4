#include "orthornn/text/chrf.hpp"

#include <fmt/format.h>

#include "text/characters.hpp"
#include "text/translation_metrics.hpp"

namespace orthornn {
namespace {

/// β² of the F-score.
constexpr double recall_weight = 4;

using Ngrams = std::array<NgramCounts, chrf_orders>;

std::string without_white_space(std::string_view line) {
  std::string text;
  for (const Character& character : characters(line)) {
    if (!character.is_white_space) text += character.bytes;
  }
  return text;
}

/// `text` has no white space, and outlives the counts.
Ngrams ngrams_of(const std::string& text) {
  std::vector<std::string_view> pieces;
  for (const Character& character : characters(text)) pieces.push_back(character.bytes);
  Ngrams ngrams;
  for (std::size_t n = 0; n < chrf_orders; ++n) ngrams[n] = count_ngrams(pieces, n + 1);
  return ngrams;
}

double f_score(const ChrfStatistics& statistics) {
  double precision = 0, recall = 0, orders = 0;
  for (std::size_t n = 0; n < chrf_orders; ++n) {
    if (statistics.hypothesis_ngrams[n] == 0 || statistics.reference_ngrams[n] == 0) continue;
    const auto matching = static_cast<double>(statistics.matches[n]);
    precision += matching / static_cast<double>(statistics.hypothesis_ngrams[n]);
    recall += matching / static_cast<double>(statistics.reference_ngrams[n]);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * ((1 + recall_weight) * precision * recall / (recall_weight * precision + recall));
}

}  // namespace

ChrfStatistics& ChrfStatistics::operator+=(const ChrfStatistics& share) {
  size += share.size;
  add_to(hypothesis_ngrams, share.hypothesis_ngrams);
  add_to(reference_ngrams, share.reference_ngrams);
  add_to(matches, share.matches);
  return *this;
}

ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references) {
  const CorpusSize size = one_sentence(references);
  const std::string text = without_white_space(hypothesis);
  const Ngrams ngrams = ngrams_of(text);
  ChrfStatistics best;
  double best_score = -1;
  for (const std::string& reference : references) {
    const std::string reference_text = without_white_space(reference);
    const Ngrams reference_ngrams = ngrams_of(reference_text);
    ChrfStatistics statistics{.size = size};
    for (std::size_t n = 0; n < chrf_orders; ++n) {
      statistics.hypothesis_ngrams[n] = reference_ngrams[n].empty() ? 0 : total(ngrams[n]);
      statistics.reference_ngrams[n] = total(reference_ngrams[n]);
      statistics.matches[n] = matches(ngrams[n], reference_ngrams[n]);
    }
    const double score = f_score(statistics);
    if (score > best_score) {
      best_score = score;
      best = statistics;
    }
  }
  return best;
}

ChrfStatistics chrf_statistics(std::span<const std::string> hypotheses,
                               std::span<const std::vector<std::string>> references) {
  return sum_sentences<ChrfStatistics>(hypotheses, references, &chrf_statistics);
}

ChrfScore chrf(const ChrfStatistics& statistics) {
  return {.score = f_score(statistics),
          .signature = signature(statistics.size, "case:mixed|eff:yes|nc:6|nw:0|space:no")};
}

std::string score_text(const ChrfScore& score) { return fmt::format("chrF2 = {:.2f}", score.score); }

}  // namespace orthornn
