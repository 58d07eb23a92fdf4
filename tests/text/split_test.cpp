#include "orthornn/text/split.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/text/normalization.hpp"
#include "support/catch.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// 300 English sentences with one to four translations each.
std::vector<SentencePair> many_pairs() {
  std::vector<SentencePair> pairs;
  for (int i = 0; i < 300; ++i) {
    for (int j = 0; j <= i % 4; ++j)
      pairs.push_back(
          {"Sentence " + std::to_string(i), "frase " + std::to_string(i) + " " + std::to_string(j)});
  }
  return pairs;
}

std::vector<SentencePair> reversed(std::vector<SentencePair> pairs) {
  for (SentencePair& pair : pairs) std::swap(pair.source, pair.target);
  return pairs;
}

std::set<std::string> distinct_sentences(const std::vector<SentencePair>& pairs, Column column) {
  std::set<std::string> set;
  for (const SentencePair& pair : pairs) set.insert(normalize(sentence_of(pair, column), {true, true}));
  return set;
}

bool overlap(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& sentence) { return b.contains(sentence); });
}

}  // namespace

TEST_CASE("No sentence of the deciding column is on two sides", "[text]") {
  const std::vector<SentencePair> pairs = many_pairs();
  const SplitPairs split = split_pairs(pairs, Column::source, {.validation = 0.1, .test = 0.2}, 1);
  const auto training = distinct_sentences(split.training, Column::source);
  const auto validation = distinct_sentences(split.validation, Column::source);
  const auto test = distinct_sentences(split.test, Column::source);
  CHECK(validation.size() == 30);
  CHECK(test.size() == 60);
  CHECK(training.size() == 210);
  CHECK_FALSE(overlap(training, validation));
  CHECK_FALSE(overlap(training, test));
  CHECK_FALSE(overlap(validation, test));

  std::vector<SentencePair> together = split.training;
  together.insert(together.end(), split.validation.begin(), split.validation.end());
  together.insert(together.end(), split.test.begin(), split.test.end());
  CHECK(std::ranges::is_permutation(together, pairs));
}

TEST_CASE("The split is the same in both directions", "[text]") {
  const SplitPairs there = split_pairs(many_pairs(), Column::source, {}, 3);
  const SplitPairs back = split_pairs(reversed(many_pairs()), Column::target, {}, 3);
  CHECK(reversed(back.training) == there.training);
  CHECK(reversed(back.validation) == there.validation);
  CHECK(reversed(back.test) == there.test);
}

TEST_CASE("The seed and the set of sentences decide the split, not their order", "[text]") {
  const auto test_set = [](const std::vector<SentencePair>& pairs, std::uint64_t seed) {
    return distinct_sentences(split_pairs(pairs, Column::source, {}, seed).test, Column::source);
  };
  const std::vector<SentencePair> pairs = many_pairs();
  const auto expected = test_set(pairs, 1);
  CHECK(test_set(shuffled(pairs, 9), 1) == expected);
  std::vector<SentencePair> twice = pairs;
  twice.insert(twice.end(), pairs.begin(), pairs.end());
  CHECK(test_set(twice, 1) == expected);
  CHECK(test_set(pairs, 2) != expected);
}

TEST_CASE("The split of a seed is the same on every machine", "[text]") {
  std::vector<SentencePair> pairs;
  for (int i = 0; i < 20; ++i) pairs.push_back({"Sentence " + std::to_string(i), ""});
  const SplitPairs split = split_pairs(pairs, Column::source, {.validation = 0.1, .test = 0.1}, 1);
  // The four smallest of Philox(FNV-1a(sentence)). Computed by another program.
  CHECK(distinct_sentences(split.validation, Column::source) ==
        std::set<std::string>{"sentence 3", "sentence 4"});
  CHECK(distinct_sentences(split.test, Column::source) ==
        std::set<std::string>{"sentence 12", "sentence 15"});
}

TEST_CASE("The sides keep the order of the pairs", "[text]") {
  const SplitPairs split = split_pairs(many_pairs(), Column::source, {}, 1);
  std::map<std::string, int> place;
  for (const SentencePair& pair : many_pairs()) place.emplace(pair.target, static_cast<int>(place.size()));
  for (const auto* side : {&split.training, &split.validation, &split.test}) {
    CHECK(std::ranges::is_sorted(*side, {}, [&](const SentencePair& pair) { return place.at(pair.target); }));
  }
}

TEST_CASE("Sentences that differ in case, accents or spaces are one", "[text]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<SentencePair> pairs{{"Papá está  aquí.", "1"},
                                    {"papa esta aqui .", "2"},
                                    {"PAPÁ ESTÁ AQUÍ.\u00A0", "3"},
                                    {"Another one", "4"},
                                    {"a third", "5"}};
    const SplitPairs split = split_pairs(pairs, Column::source, {.validation = 0.3, .test = 0.3}, seed);
    CHECK(distinct_sentences(split.validation, Column::source).size() == 1);
    CHECK(distinct_sentences(split.test, Column::source).size() == 1);
    CHECK_FALSE(overlap(distinct_sentences(split.training, Column::source),
                        distinct_sentences(split.test, Column::source)));
    const std::size_t sizes[] = {split.training.size(), split.validation.size(), split.test.size()};
    CHECK(std::ranges::count(sizes, 3U) == 1);
  }
}

TEST_CASE("Every sentence has the same chance to be held out", "[text]") {
  // Of 300 sentences 15 are in the test: 200 seeds, 10 times each, deviation 3.1.
  std::map<std::string, int> times;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const std::string& sentence :
         distinct_sentences(split_pairs(many_pairs(), Column::source, {}, seed).test, Column::source))
      ++times[sentence];
  }
  CHECK(times.size() == 300);
  for (const auto& [sentence, count] : times) CHECK(count < 26);
}

TEST_CASE("Shares may be zero, and are refused when they leave no training", "[text]") {
  const std::vector<SentencePair> pairs = many_pairs();
  const SplitPairs all = split_pairs(pairs, Column::source, {.validation = 0, .test = 0}, 1);
  CHECK(all.training == pairs);
  const SplitPairs few = split_pairs(pairs, Column::source, {.validation = 1e-6, .test = 0}, 1);
  CHECK(distinct_sentences(few.validation, Column::source).size() == 1);
  CHECK_THROWS_WITH(split_pairs(pairs, Column::source, {.validation = 0.5, .test = 0.5}, 1),
                    contains("leaves none for training"));
  CHECK_THROWS_WITH(split_pairs({{"a", "b"}}, Column::source, {}, 1), contains("leaves none for training"));
  CHECK_THROWS_WITH(split_pairs({}, Column::source, {}, 1), contains("leaves none for training"));
  CHECK_THROWS_WITH(split_pairs(pairs, Column::source, {.validation = 1}, 1), contains("validation is 1"));
  CHECK_THROWS_WITH(split_pairs(pairs, Column::source, {.test = -0.1}, 1), contains("test is -0.1"));
}
