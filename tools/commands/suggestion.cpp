#include "commands/suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace orthornn::program {

std::size_t edit_distance(const std::string& from, const std::string& to) {
  // Rows of the table of Damerau and Levenshtein: distances of the first i letters to the first j.
  std::vector<std::size_t> before_last(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[to.size()];
}

std::string closest_to(const std::string& word, const std::vector<std::string>& candidates) {
  // A word of a stranger's making may be as long as a command line.
  constexpr std::size_t longest = 64;
  if (word.size() > longest) return {};
  std::string closest;
  std::size_t least = word.size();
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    // Dashes before an option are always right.
    const std::size_t letters =
        candidate.size() - std::min(candidate.find_first_not_of('-'), candidate.size());
    if (distance >= least || distance > std::max<std::size_t>(1, letters / 3)) continue;
    least = distance;
    closest = candidate;
  }
  return closest;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string name = closest_to(word, candidates);
  return name.empty() ? "" : fmt::format("; did you mean {}?", name);
}

}  // namespace orthornn::program
