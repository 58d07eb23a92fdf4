#pragma once
// What the metrics of translations share: sums over the sentences of a corpus, and their signature.

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/text/corpus_size.hpp"

namespace orthornn {

using CorpusReferences = std::span<const std::vector<std::string>>;

/// Throws ValueError for a corpus without references, and for different numbers of lines, saying both.
void check_lines(std::span<const std::string> hypotheses, CorpusReferences references);

/// Throws ValueError for no references.
CorpusSize one_sentence(std::span<const std::string> references);

/// The statistics of all sentences, added up. `statistics_of(hypothesis, references)` gives those of one;
/// what it throws then begins with the number of the line, from 1.
template <class Statistics, class StatisticsOf>
Statistics sum_sentences(std::span<const std::string> hypotheses, CorpusReferences references,
                         const StatisticsOf& statistics_of) {
  check_lines(hypotheses, references);
  Statistics sum;
  std::vector<std::string> of_sentence(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t r = 0; r < references.size(); ++r) of_sentence[r] = references[r][i];
    try {
      sum += statistics_of(hypotheses[i], of_sentence);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("line {}: {}", i + 1, error.what()));
    }
  }
  return sum;
}

/// Adds element by element.
template <std::size_t orders>
void add_to(std::array<Index, orders>& sum, const std::array<Index, orders>& share) {
  for (std::size_t n = 0; n < orders; ++n) sum[n] += share[n];
}

/// "nrefs:1|SETTINGS|version:orthornn-0.1.0". Throws ValueError for no sentence.
std::string signature(const CorpusSize& size, const char* settings);

}  // namespace orthornn
