#include "orthornn/train/translator.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// A model that knows the words of numbers, with random parameters.
struct Untrained {
  explicit Untrained(const TranslationOptions& options = {}) : task(with_data(options)) {
    const OrthogonalCell cell{.hidden_size = 8, .transition = Cwy{.reflections = 4}};
    model = std::make_unique<EncoderDecoder<float>>(
        Device::cpu(),
        EncoderDecoderOptions{.source_symbols = task.source_tokenizer().size(),
                              .target_symbols = task.target_tokenizer().size(),
                              .embedding_size = 6,
                              .encoder = {cell},
                              .decoder = {cell}},
        3);
    // Answers depend on the sentence, and probabilities differ by more than rounding errors.
    for (const char* name :
         {"source_embedding/vectors", "target_embedding/vectors", "attention/query/weight", "output/weight"})
      for (float& x : parameter(name)) x *= 4;
  }

  TensorView<float> parameter(const std::string& name) const {
    return model->parameters().value(model->parameters().find(name));
  }
  /// Answers are this symbol, again and again.
  void force(std::int32_t symbol) const { parameter("output/bias")(symbol) = 1e4F; }

  TranslationOptions with_data(TranslationOptions options) const {
    write_text(folder / "pairs.txt", number_pairs(200));
    options.data = folder.path();
    options.direction = Direction::second_to_first;
    options.batch = 16;
    return options;
  }

  TemporaryFolder folder;
  TranslationTask task;
  std::unique_ptr<EncoderDecoder<float>> model;
};

const std::vector<std::string> some_sentences = {
    "one hundred twelve", "seven",  "",   "one hundred twenty one", "Nobody said this !", "twenty",
    "two three",          " \t\r ", "one"};

}  // namespace

TEST_CASE("a blank sentence has one empty translation", "[translator]") {
  const Untrained untrained;
  Translator translator(*untrained.model, untrained.task);
  const std::vector<std::string> sentences = {"", " ", "\t \xC2\xA0", "\x01", "seven"};
  const auto found = translator.translate(sentences, {.beam = 3});
  REQUIRE(found.size() == 5);
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(found[i].size() == 1);
    CHECK(found[i][0].text == "");
    CHECK(found[i][0].complete);
  }
  CHECK(found[4].size() == 3);
  CHECK(translator.translate(std::vector<std::string>{}).empty());
}

TEST_CASE("translations can be left between two batches", "[translator]") {
  const Untrained untrained;
  Translator translator(*untrained.model, untrained.task);
  int batches = 0;
  const auto leave_third = [&] {
    if (++batches == 3) throw Error("left");
  };
  CHECK_THROWS_WITH(translator.translate(some_sentences, {.beam = 1}, 2, leave_third), contains("left"));
  CHECK(batches == 3);
}

TEST_CASE("a translation comes with the attention of each of its tokens", "[translator]") {
  const Untrained untrained;
  Translator translator(*untrained.model, untrained.task);
  for (const char* sentence : {"One hundred twelve", "seven Zanzibar seven"}) {
    const AlignedTranslation found = translator.align(sentence, {.beam = 3});
    const std::vector<std::string> alone = {sentence};
    const Translation expected = translator.translate(alone, {.beam = 3})[0][0];
    CHECK(found.translation.text == expected.text);
    CHECK(found.translation.score == expected.score);
    REQUIRE(found.source.size() == 4);
    CHECK(found.source.back() == "</s>");
    CHECK((found.target.back() == "</s>") == expected.complete);
    REQUIRE(found.attention.size() == found.target.size());
    for (const std::vector<float>& weights : found.attention) {
      REQUIRE(weights.size() == 4);
      // Rounding errors of four floats.
      CHECK(std::abs(weights[0] + weights[1] + weights[2] + weights[3] - 1) < 1e-6F);
    }
  }
  CHECK(translator.align("one hundred").source == std::vector<std::string>{"one", "hundred", "</s>"});
  CHECK(translator.align(" ").source.empty());
  CHECK_THROWS_AS(translator.align("\xFF"), ValueError);

  const Untrained pieces({.tokenizer = TokenizerKind::sentencepiece, .vocabulary = 30});
  const AlignedTranslation of_pieces = Translator(*pieces.model, pieces.task).align("one hundred");
  const auto tokens = pieces.task.source_tokenizer().encode("one hundred");
  REQUIRE(of_pieces.source.size() == tokens.size() + 1);
  CHECK(of_pieces.source[0] == pieces.task.source_tokenizer().text_of(tokens[0]));

  // Unknown words are shown as they are copied.
  untrained.force(token_ids::unknown);
  const AlignedTranslation copied = translator.align("Tom", {.beam = 1, .most_symbols = 2});
  CHECK(copied.target == std::vector<std::string>{"tom", "tom"});
  CHECK(copied.attention.size() == 2);
}

TEST_CASE("an unknown word is copied from the word that attention points to", "[translator]") {
  const Untrained untrained;
  untrained.force(token_ids::unknown);
  Translator translator(*untrained.model, untrained.task);
  const BeamSearchOptions search{.beam = 1, .most_symbols = 3};
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"Zanzibar seven Tom", {"zanzibar", "seven", "tom"}},
      {"Tom", {"tom"}},
      {"one", {"one"}},
      {"Quixote , I said", {"quixote", ",", "i", "said"}}};
  int at_end = 0;
  for (const auto& [sentence, words] : cases) {
    CAPTURE(sentence);
    // What the search itself says of the sentence.
    std::vector<std::int32_t> tokens = untrained.task.source_tokenizer().encode(sentence);
    tokens.push_back(token_ids::end);
    Batch batch;
    batch.integers(batch_names::source).resize({std::ssize(tokens), 1});
    std::ranges::copy(tokens, batch.integers(batch_names::source).begin());
    const Hypothesis hypothesis = beam_search(*untrained.model, batch,
                                              {.begin = token_ids::begin,
                                               .end = token_ids::end,
                                               .excluded = {token_ids::padding, token_ids::begin}},
                                              search)[0][0];
    REQUIRE(hypothesis.attention.size() == 3);
    std::string copied;
    for (std::size_t t = 0; t < 3; ++t) {
      const std::vector<float>& weights = hypothesis.attention[t];
      REQUIRE(weights.size() == words.size() + 1);
      std::size_t most = 0;
      for (std::size_t s = 1; s < words.size(); ++s) {
        if (weights[s] > weights[most]) most = s;
      }
      at_end += weights.back() > weights[most];
      copied += (t == 0 ? "" : " ") + words[most];
    }
    const auto found = translator.translate(std::vector<std::string>{sentence}, search);
    CHECK(found[0].at(0).text == detokenize(copied));
    CHECK_FALSE(found[0][0].complete);
  }
  // Some of these attend to the end most, which is no word.
  CHECK(at_end > 0);
}

TEST_CASE("a known word is not copied, and a piece never", "[translator]") {
  SECTION("words") {
    const Untrained untrained;
    const std::int32_t seven = untrained.task.target_tokenizer().encode("7").at(0);
    untrained.force(seven);
    Translator translator(*untrained.model, untrained.task);
    const auto found =
        translator.translate(std::vector<std::string>{"Tom seven"}, {.beam = 1, .most_symbols = 2});
    CHECK(found[0][0].text == "7 7");
  }
  SECTION("pieces") {
    const Untrained untrained({.tokenizer = TokenizerKind::sentencepiece, .vocabulary = 40});
    untrained.force(token_ids::unknown);
    Translator translator(*untrained.model, untrained.task);
    const auto found =
        translator.translate(std::vector<std::string>{"seven"}, {.beam = 1, .most_symbols = 1});
    CHECK(found[0][0].text == untrained.task.target_tokenizer().decode(std::vector{token_ids::unknown}));
  }
}

TEST_CASE("translations are in the order of the sentences, whatever the batch", "[translator]") {
  const Untrained untrained;
  Translator translator(*untrained.model, untrained.task);
  const BeamSearchOptions search{.beam = 3, .most_symbols = 6};
  const auto together = translator.translate(some_sentences, search);
  REQUIRE(together.size() == some_sentences.size());
  std::vector<std::string> distinct;
  for (const Index batch : {1, 2, 3, 64}) {
    const auto found = translator.translate(some_sentences, search, batch);
    for (std::size_t i = 0; i < some_sentences.size(); ++i) {
      CAPTURE(batch, some_sentences[i]);
      const auto alone = translator.translate(std::vector<std::string>{some_sentences[i]}, search);
      REQUIRE(found[i].size() == alone[0].size());
      for (std::size_t n = 0; n < found[i].size(); ++n) {
        CHECK(found[i][n].text == alone[0][n].text);
        // Sums in another order, of some ten numbers of order one for each of six symbols.
        CHECK(std::abs(found[i][n].score - alone[0][n].score) < 1e-4);
        CHECK((n == 0 || found[i][n].score <= found[i][n - 1].score));
      }
      distinct.push_back(found[i][0].text);
    }
  }
  // Not all alike, or the order would not show.
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  CHECK(distinct.size() > 4);
}

TEST_CASE("what cannot be translated is refused", "[translator]") {
  const Untrained untrained;
  Translator translator(*untrained.model, untrained.task);
  std::string longest;
  for (Index i = 0; i < TranslationOptions::most_tokens; ++i) longest += "one ";
  CHECK_NOTHROW(translator.check(longest));
  const auto refused = [&](const std::string& sentence, std::initializer_list<std::string> words) {
    check_says<ValueError>([&] { translator.check(sentence); }, words);
    check_says<ValueError>([&] { translator.translate(std::vector<std::string>{"one", sentence}); }, words);
  };
  refused(longest + "two", {"1001 tokens", "at most 1000"});
  refused("one \xFF", {"UTF-8"});
  const std::vector<std::string> one = {"one"};
  check_says<ValueError>([&] { translator.translate(one, {}, 0); }, {"0 sentences"});
  check_says<ValueError>([&] { translator.translate(one, {.beam = 0}); }, {"beam"});
}

TEST_CASE("a model that does not know the task's tokens is refused", "[translator]") {
  const Untrained untrained;
  EncoderDecoderOptions options = untrained.model->options();
  const auto refused = [&] {
    EncoderDecoder<float> other(Device::cpu(), options);
    check_says<ValueError>([&] { Translator(other, untrained.task); }, {"symbols", "tokenizers"});
  };
  options.source_symbols -= 1;
  refused();
  options.source_symbols += 1;
  options.target_symbols += 1;
  refused();
}
