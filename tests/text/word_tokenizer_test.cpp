#include "orthornn/text/word_tokenizer.hpp"

#include <initializer_list>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "text/sample_sentences.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Tokens = std::vector<std::int32_t>;

const std::vector<std::string> sentences_of_words{"the cat sees the dog .", "The dog sees a cat.", "The end!",
                                                  "ñ ñ"};

WordTokenizer trained_words(const WordTokens& options = {}, const NormalizationOptions& normalization = {}) {
  return WordTokenizer(options, normalization, views(sentences_of_words));
}

std::string rewritten(const std::string& words) {
  return WordTokenizer({}, {}, std::string_view(words)).content();
}

}  // namespace

TEST_CASE("Words are numbered by frequency, then by their bytes", "[text]") {
  CHECK(trained_words().content() == "the\n.\ncat\ndog\nsees\nñ\n!\na\nend\n");
  CHECK(trained_words().size() == 13);
  CHECK(trained_words({}, {.lower_case = false}).content() == ".\nThe\ncat\ndog\nsees\nthe\nñ\n!\na\nend\n");
  CHECK(trained_words({}, {.lower_case = true, .strip_accents = true}).text_of(8) == "n");
}

TEST_CASE("The vocabulary has the most frequent words only", "[text]") {
  const WordTokenizer small = trained_words({.vocabulary = 6});
  CHECK(small.size() == 6);
  CHECK(small.content() == "the\n.\n");
  CHECK(small.encode("The cat.") == Tokens{4, 1, 5});
  CHECK(small.decode(Tokens{4, 1, 5}) == "the <unk>.");
}

TEST_CASE("A sentence becomes the numbers of its words", "[text]") {
  const WordTokenizer words = trained_words();
  CHECK(words.encode("THE dog sees Tom.") == Tokens{4, 7, 8, token_ids::unknown, 5});
  CHECK(words.words("THE dog sees Tom.") == std::vector<std::string>{"the", "dog", "sees", "tom", "."});
  CHECK(words.encode("").empty());
  CHECK(words.words(" \t").empty());
  CHECK(words.kind() == "word");
  CHECK_THROWS_AS(words.encode("\xFF"), ValueError);
}

TEST_CASE("What looks like a token that is fixed is a word like others", "[text]") {
  const WordTokenizer words({}, {}, views({"a <unk> </s> <pad>"}));
  for (const std::int32_t token : words.encode("<unk> <pad>")) CHECK(token >= token_ids::first_of_text);
}

TEST_CASE("Numbers become a sentence up to its end", "[text]") {
  const WordTokenizer words = trained_words();
  CHECK(words.decode(Tokens{2, 4, 6, 8, 11, 7, 5, 3, 0, 0}) == "the cat sees a dog.");
  CHECK(words.decode(Tokens{0, 4, 0}) == "the");
  CHECK(words.decode(Tokens{3, 4}) == "");
  CHECK(words.decode(Tokens{}) == "");
  CHECK(words.text_of(0) == "<pad>");
  CHECK(words.text_of(1) == "<unk>");
  CHECK(words.text_of(2) == "<s>");
  CHECK(words.text_of(3) == "</s>");
  CHECK(words.text_of(12) == "end");
  for (const std::int32_t wrong : {-1, 13, 2'000'000'000}) {
    CHECK_THROWS_WITH(words.decode(Tokens{4, wrong}), contains("expected 0 to 12"));
    CHECK_THROWS_WITH(words.text_of(wrong), contains("expected 0 to 12"));
  }
}

TEST_CASE("Words of more than 256 bytes are unknown", "[text]") {
  const std::string longest(256, 'a');
  const WordTokenizer words({}, {}, views({longest + " " + longest + "a b"}));
  CHECK(words.content() == longest + "\nb\n");
  CHECK(words.encode(longest + "a b") == Tokens{token_ids::unknown, 5});
}

TEST_CASE("A vocabulary needs a word", "[text]") {
  CHECK_THROWS_WITH(WordTokenizer({}, {}, views({})), contains("0 sentences without a word"));
  CHECK_THROWS_WITH(WordTokenizer({}, {}, views({"", " "})), contains("2 sentences without a word"));
}

TEST_CASE("A list of words is read as it was written", "[text]") {
  CHECK(rewritten("the\nñ\n<unk>\n") == "the\nñ\n<unk>\n");
  const WordTokenizer words({.vocabulary = 6}, {}, std::string_view("b\na\n"));
  CHECK(words.encode("a b c") == Tokens{5, 4, 1});
}

TEST_CASE("A wrong list of words is refused", "[text]") {
  CHECK_THROWS_WITH(rewritten(""), contains("it has no words"));
  CHECK_THROWS_WITH(rewritten("a\nb"), contains("the last word does not end"));
  CHECK_THROWS_WITH(rewritten("a\n\nb\n"), contains("token 5 is empty"));
  CHECK_THROWS_WITH(rewritten("a\nb\na\n"), contains("token 6 is 'a', which is there before"));
  CHECK_THROWS_WITH(rewritten("a\n\xFF\n"), contains("token 5 is not UTF-8"));
  CHECK_THROWS_WITH(rewritten("a b\n"), contains("token 4 has a space"));
  CHECK_THROWS_WITH(rewritten("a\u00A0b\n"), contains("token 4 has white space"));
  CHECK_THROWS_WITH(rewritten("a\r\n"), contains("token 4 has white space"));
  CHECK_THROWS_WITH(rewritten("\x1B[31m\n"), contains("control characters"));
  CHECK_THROWS_WITH(rewritten("n\u0303\n"), contains("normalization form C"));
  std::string too_long(258, 'a');
  too_long.back() = '\n';
  CHECK_THROWS_WITH(rewritten(too_long), contains("token 4 is too long; expected 1 to 256"));
  CHECK_THROWS_WITH(WordTokenizer({.vocabulary = 6}, {}, std::string_view("a\nb\nc\n")),
                    contains("more than 2 words"));
}
