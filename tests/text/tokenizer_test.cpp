#include "orthornn/text/tokenizer.hpp"

#include <initializer_list>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "text/sample_sentences.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

const std::string first_line = "orthornn tokenizer 1\n";
const std::string word_description =
    R"({"tokens":{"kind":"word","vocabulary":9},"normalization":{"lower_case":false,"strip_accents":true}})";

}  // namespace

TEST_CASE("Tokenizers have names and defaults", "[text]") {
  CHECK(names_of<TokenizerOptions>() == std::vector<std::string>{"word", "sentencepiece"});
  CHECK(std::get<WordTokens>(parse<TokenizerOptions>("word")).vocabulary == 30'000);
  CHECK(std::get<SentencePieces>(parse<TokenizerOptions>("sentencepiece")).vocabulary == 8'000);
}

TEST_CASE("A tokenizer is serialized and loaded whole", "[text]") {
  const TokenizerOptions options = GENERATE(
      TokenizerOptions(WordTokens{.vocabulary = 50}), TokenizerOptions(SentencePieces{.vocabulary = 100}),
      TokenizerOptions(SentencePieces{.vocabulary = 110, .model = PieceModel::bpe}));
  const NormalizationOptions normalization{.lower_case = GENERATE(false, true), .strip_accents = true};
  const auto made = train_tokenizer(options, normalization, views(sample_sentences()));
  const auto loaded = load_tokenizer(made->serialize());
  CHECK(loaded->serialize() == made->serialize());
  CHECK(loaded->kind() == name_of(options));
  CHECK(loaded->size() == made->size());
  CHECK(loaded->normalization().lower_case == normalization.lower_case);
  CHECK(loaded->normalization().strip_accents);
  for (const std::string& sentence : sample_sentences())
    CHECK(loaded->encode(sentence) == made->encode(sentence));
}

TEST_CASE("The bytes of a tokenizer say what they are", "[text]") {
  const auto tokenizer = load_tokenizer(first_line + word_description + "\nB\nn\n");
  CHECK(tokenizer->encode("B b Ñ ñ") == std::vector<std::int32_t>{4, 1, 1, 5});
  CHECK(tokenizer->serialize() == first_line + word_description + "\nB\nn\n");
}

TEST_CASE("Options outside their domain make no tokenizer", "[text]") {
  for (const Index vocabulary : {Index{-1}, Index{4}, Index{1'000'001}}) {
    CHECK_THROWS_WITH(train_tokenizer(WordTokens{vocabulary}, {}, views({"a"})),
                      contains("word: vocabulary is"));
    CHECK_THROWS_WITH(train_tokenizer(SentencePieces{vocabulary}, {}, views({"a"})),
                      contains("sentencepiece: vocabulary is"));
  }
}

TEST_CASE("Bytes that are no tokenizer are refused", "[text]") {
  const auto check = [](const std::string& bytes, const char* words) {
    CHECK_THROWS_AS(load_tokenizer(bytes), ValueError);
    CHECK_THROWS_WITH(load_tokenizer(bytes), contains("these bytes are no tokenizer") && contains(words));
  };
  const auto changed = [](std::string from, const std::string& to) {
    std::string text = word_description;
    return first_line + text.replace(text.find(from), from.size(), to) + "\na\n";
  };
  check("", "do not begin with a line 'orthornn tokenizer 1'");
  check("orthornn tokenizer 2\n" + word_description + "\na\n", "do not begin");
  check(first_line, "the second line does not end");
  check(first_line + word_description, "the second line does not end");
  check(first_line + "{\na\n", "not JSON");
  check(first_line + "[]\na\n", "tokens");
  check(first_line + "{}\na\n", "tokens");
  check(first_line + word_description + "\n", "no words");
  check(changed("\"word\"", "\"letter\""), "word or sentencepiece");
  check(changed("\"word\"", "\"sentencepiece\""), "model");
  check(changed(":9", ":4"), "vocabulary");
  check(changed(":9", ":-9"), "vocabulary");
  check(changed(":9", ":1e99"), "vocabulary");
  check(changed("false", "0"), "lower_case");
  check(changed(",\"strip_accents\":true", ""), "strip_accents");
  check(first_line + std::string(100'000, '[') + "\na\n", "nested too deeply");
  check(first_line + R"({"tokens":{"kind":"sentencepiece","vocabulary":9,"model":"unigram"},)" +
            R"("normalization":{"lower_case":false,"strip_accents":true}})" + "\nno model",
        "no SentencePiece model");
}
