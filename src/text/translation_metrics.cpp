#include "text/translation_metrics.hpp"

#include <algorithm>

#include "orthornn/version.hpp"

namespace orthornn {

NgramCounts count_ngrams(const std::vector<std::string_view>& pieces, std::size_t order) {
  NgramCounts counts;
  for (std::size_t first = 0; first + order <= pieces.size(); ++first) {
    const std::string_view last = pieces[first + order - 1];
    const char* begin = pieces[first].data();
    ++counts[std::string_view(begin, static_cast<std::size_t>(last.data() + last.size() - begin))];
  }
  return counts;
}

Index total(const NgramCounts& counts) {
  Index sum = 0;
  for (const auto& [ngram, count] : counts) sum += count;
  return sum;
}

Index matches(const NgramCounts& first, const NgramCounts& second) {
  Index sum = 0;
  for (const auto& [ngram, count] : first) {
    const auto found = second.find(ngram);
    if (found != second.end()) sum += std::min(count, found->second);
  }
  return sum;
}

CorpusSize& CorpusSize::operator+=(const CorpusSize& share) {
  if (share.sentences == 0) return *this;
  if (sentences != 0 && references != share.references) {
    throw ValueError(
        fmt::format("sentences with {} and sentences with {} references are added up; give every sentence as "
                    "many references",
                    references, share.references));
  }
  sentences += share.sentences;
  references = share.references;
  return *this;
}

void check_lines(std::span<const std::string> hypotheses, CorpusReferences references) {
  if (references.empty()) throw ValueError("a corpus has no references; expected at least one");
  for (std::size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() == hypotheses.size()) continue;
    throw ValueError(
        fmt::format("hypotheses have {} lines, reference {} has {}; expected one line of each for "
                    "every sentence",
                    hypotheses.size(), r + 1, references[r].size()));
  }
}

CorpusSize one_sentence(std::span<const std::string> references) {
  if (references.empty()) throw ValueError("a sentence has no references; expected at least one");
  return {.sentences = 1, .references = static_cast<Index>(references.size())};
}

std::string signature(const CorpusSize& size, const char* settings) {
  if (size.sentences == 0) {
    throw ValueError("a corpus of no sentences has no score; expected at least one sentence");
  }
  return fmt::format("nrefs:{}|{}|version:orthornn-{}", size.references, settings, version());
}

}  // namespace orthornn
