#pragma once

#include <string>
#include <vector>

namespace orthornn::program {

/// Letters to add, to leave out, to replace or to swap with the next one, until one word is the other.
std::size_t edit_distance(const std::string& from, const std::string& to);

/// The candidate that a mistyped word is closest to; "" where each differs in more than a third of its
/// letters.
std::string closest_to(const std::string& word, const std::vector<std::string>& candidates);

/// "; did you mean CANDIDATE?" with that of `closest_to`; "" without one.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace orthornn::program
