// The file of English and Spanish sentences as it is distributed, where it is on this machine.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "orthornn/text/length_buckets.hpp"
#include "orthornn/text/normalization.hpp"
#include "orthornn/text/parallel_text.hpp"
#include "orthornn/text/split.hpp"
#include "orthornn/text/tokenizer.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Its folder; empty, and said so, when there is none.
std::filesystem::path real_tatoeba() {
  const std::filesystem::path source = ORTHORNN_SOURCE_DIR;
  std::vector<std::filesystem::path> folders{source / "data/tatoeba", source / "../shared/data/tatoeba"};
  if (const char* named = std::getenv("ORTHORNN_TATOEBA_DIR")) folders = {named};
  const auto found =
      std::ranges::find_if(folders, [](const auto& path) { return std::filesystem::exists(path); });
  if (found != folders.end()) return *found;
  std::printf("skipped: no sentence pairs of Tatoeba; fetch spa-eng.zip into data/tatoeba\n");
  return {};
}

std::set<std::string> distinct(const std::vector<SentencePair>& pairs, Column column) {
  std::set<std::string> set;
  for (const SentencePair& pair : pairs) set.insert(sentence_of(pair, column));
  return set;
}

}  // namespace

TEST_CASE("The pairs of Tatoeba are all read", "[text]") {
  const std::filesystem::path folder = real_tatoeba();
  if (folder.empty()) return;
  const ParallelText text = read_parallel_text(folder);
  CHECK(text.skipped.empty());
  CHECK(text.pairs.size() == 118'964);
  CHECK(text.pairs.front() == SentencePair{"Go.", "Ve."});
  CHECK(distinct(text.pairs, Column::source).size() == 102'904);
}

TEST_CASE("No English sentence of Tatoeba is on two sides of the split", "[text][long]") {
  const std::filesystem::path folder = real_tatoeba();
  if (folder.empty()) return;
  const bool reverse = GENERATE(false, true);
  const Column english = reverse ? Column::target : Column::source;
  const ParallelText text = read_parallel_text(folder, {.reverse = reverse});
  const SplitPairs split = split_pairs(text.pairs, english, {}, 1);
  CHECK(split.training.size() + split.validation.size() + split.test.size() == 118'964);
  std::set<std::string> seen;
  std::size_t count = 0;
  for (const auto* side : {&split.training, &split.validation, &split.test}) {
    std::set<std::string> normal;
    for (const std::string& sentence : distinct(*side, english))
      normal.insert(normalize(sentence, {.lower_case = true, .strip_accents = true}));
    count += normal.size();
    seen.merge(normal);
  }
  CHECK(seen.size() == count);
  CHECK(distinct(split.test, english).size() > 5'000);
  CHECK(distinct(split.test, english).size() < 5'300);
}

TEST_CASE("Tokenizers of Tatoeba know nearly all of its test", "[text][long]") {
  const std::filesystem::path folder = real_tatoeba();
  if (folder.empty()) return;
  std::vector<SentencePair> pairs = shuffled(read_parallel_text(folder).pairs, 1);
  pairs.resize(20'000);
  const SplitPairs split = split_pairs(std::move(pairs), Column::source, {}, 1);
  const TokenizerOptions options =
      GENERATE(TokenizerOptions(WordTokens{}),
               TokenizerOptions(SentencePieces{.vocabulary = 2000, .model = PieceModel::bpe}));
  const auto tokenizer = train_tokenizer(options, {}, sentences_of(split.training, Column::target));
  Index tokens = 0, unknown = 0;
  for (const SentencePair& pair : split.test) {
    for (const std::int32_t token : tokenizer->encode(pair.target)) {
      ++tokens;
      unknown += token == token_ids::unknown;
    }
  }
  CHECK(tokens > 5'000);
  // Words that only the test has; and hardly any character that only it has.
  CHECK(unknown * 100 < tokens * (tokenizer->kind() == "word" ? 8 : 1));
  for (const SentencePair& pair : split.training) {
    const std::string clean = clean_text(pair.target, {});
    const std::string decoded = tokenizer->decode(tokenizer->encode(pair.target));
    if (tokenizer->kind() == "sentencepiece") CHECK(decoded == clean);
  }
}
