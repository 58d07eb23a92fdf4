#pragma once
// What the metrics of translations share: n-gram counts, sums over the sentences of a corpus, and signatures.

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/text/corpus_size.hpp"

namespace orthornn {

/// How often each n-gram of one order is in a text, which must outlive the counts.
using NgramCounts = std::unordered_map<std::string_view, Index>;

/// `pieces` are the words or characters of one text in their order. An n-gram is the part of that text from
/// its first piece to its last: equal n-grams have equal bytes if the same bytes separate all pieces.
NgramCounts count_ngrams(const std::vector<std::string_view>& pieces, std::size_t order);

/// The n-grams of a text, repeated ones counted each time.
Index total(const NgramCounts& counts);

/// The n-grams that both have, repeated ones as often as both have them.
Index matches(const NgramCounts& first, const NgramCounts& second);

/// Adds element by element.
template <std::size_t orders>
void add_to(std::array<Index, orders>& sum, const std::array<Index, orders>& share) {
  for (std::size_t n = 0; n < orders; ++n) sum[n] += share[n];
}

using CorpusReferences = std::span<const std::vector<std::string>>;

/// Throws ValueError for a corpus without references, and for different numbers of lines, saying both.
void check_lines(std::span<const std::string> hypotheses, CorpusReferences references);

/// Throws ValueError for no references.
CorpusSize one_sentence(std::span<const std::string> references);

/// The statistics of all sentences, added up. `statistics_of` gives those of one; what it throws then begins
/// with the number of the line, from 1.
template <class Statistics>
Statistics sum_sentences(std::span<const std::string> hypotheses, CorpusReferences references,
                         Statistics (*statistics_of)(std::string_view hypothesis,
                                                     std::span<const std::string> references)) {
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

/// "nrefs:1|SETTINGS|version:orthornn-0.1.0". Throws ValueError for no sentence.
std::string signature(const CorpusSize& size, const char* settings);

}  // namespace orthornn
