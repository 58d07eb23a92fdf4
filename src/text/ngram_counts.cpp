#include "text/ngram_counts.hpp"

#include <algorithm>

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

}  // namespace orthornn
