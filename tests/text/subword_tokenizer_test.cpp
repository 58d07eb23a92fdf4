#include "orthornn/text/subword_tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "text/piece_list.hpp"
#include "text/sample_sentences.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Tokens = std::vector<std::int32_t>;

SubwordTokenizer trained_subwords(PieceModel model, const NormalizationOptions& normalization = {}) {
  return SubwordTokenizer({.vocabulary = 120, .model = model}, normalization, views(sample_sentences()));
}

/// A unigram model of the pieces _ab, a, b.
PieceList three_pieces() {
  return {.model = PieceModel::unigram, .pieces = {{"\u2581ab", -1}, {"a", -2}, {"b", -3}}};
}

SubwordTokenizer loaded(const std::string& model, const SentencePieces& options = {}) {
  return SubwordTokenizer(options, {}, std::string_view(model));
}
void load(const PieceList& list) { loaded(model_of(list)); }

}  // namespace

TEST_CASE("Subwords give back every sentence of their training", "[text]") {
  const PieceModel model = GENERATE(PieceModel::unigram, PieceModel::bpe);
  const SubwordTokenizer subwords = trained_subwords(model);
  CHECK(subwords.kind() == "sentencepiece");
  CHECK(subwords.size() <= 120);
  CHECK(subwords.size() > 60);
  Index tokens = 0, characters = 0;
  for (const std::string& sentence : sample_sentences()) {
    const Tokens encoded = subwords.encode(sentence);
    CHECK(std::ranges::all_of(encoded, [&](std::int32_t token) {
      return token >= token_ids::first_of_text && token < subwords.size();
    }));
    CHECK(subwords.decode(encoded) == clean_text(sentence, {}));
    tokens += static_cast<Index>(encoded.size());
    characters += static_cast<Index>(sentence.size());
  }
  CHECK(4 * tokens < 3 * characters);  // pieces are longer than characters
}

TEST_CASE("Subwords are those of the normalization", "[text]") {
  const SubwordTokenizer bare =
      trained_subwords(PieceModel::unigram, {.lower_case = true, .strip_accents = true});
  CHECK(bare.decode(bare.encode("MARÍA comió la canción.")) == "maria comio la cancion.");
  const SubwordTokenizer as_written = trained_subwords(PieceModel::bpe, {.lower_case = false});
  CHECK(as_written.decode(as_written.encode("María  comió")) == "María comió");
}

TEST_CASE("The same sentences make the same subwords", "[text]") {
  const PieceModel model = GENERATE(PieceModel::unigram, PieceModel::bpe);
  CHECK(trained_subwords(model).content() == trained_subwords(model).content());
}

TEST_CASE("A model that is read encodes as the one that was written", "[text]") {
  const PieceModel model = GENERATE(PieceModel::unigram, PieceModel::bpe);
  const SubwordTokenizer written = trained_subwords(model);
  const SubwordTokenizer read =
      loaded(written.content(),
             written.options().index() == 1 ? std::get<SentencePieces>(written.options()) : SentencePieces{});
  CHECK(read.content() == written.content());
  CHECK(read.size() == written.size());
  for (const std::string& sentence : sample_sentences())
    CHECK(read.encode(sentence) == written.encode(sentence));
  CHECK(read.encode("qxz€😀") == written.encode("qxz€😀"));
}

TEST_CASE("Pieces, scores and ends decide what subwords are", "[text]") {
  const SubwordTokenizer subwords = loaded(model_of(three_pieces()));
  CHECK(subwords.size() == 7);
  CHECK(subwords.encode("ab") == Tokens{4});
  CHECK(subwords.encode("abba") == Tokens{4, 6, 5});
  CHECK(subwords.encode("").empty());
  CHECK(subwords.text_of(4) == "\u2581ab");
  CHECK(subwords.text_of(0) == "<pad>");
  CHECK(subwords.decode(Tokens{2, 4, 5, 3, 6, 0}) == "aba");
  CHECK(subwords.decode(Tokens{4, 4, 0}) == "ab ab");
  CHECK(subwords.decode(Tokens{4, 1, 4}) == "ab <unk> ab");
  CHECK(subwords.decode(Tokens{}) == "");
  CHECK(subwords.decode(subwords.encode("ab € ab")).find("<unk>") != std::string::npos);
  for (const std::int32_t wrong : {-1, 7, 2'000'000'000}) {
    CHECK_THROWS_WITH(subwords.decode(Tokens{4, wrong}), contains("expected 0 to 6"));
    CHECK_THROWS_WITH(subwords.text_of(wrong), contains("expected 0 to 6"));
  }
  CHECK_THROWS_AS(subwords.encode("\xFF"), ValueError);
}

TEST_CASE("Subwords that cannot be found are an error", "[text]") {
  CHECK_THROWS_WITH(SubwordTokenizer({}, {}, views({})), contains("trained on 0 sentences"));
  CHECK_THROWS_WITH(SubwordTokenizer({}, {}, views({" ", "\u200B"})), contains("trained on 2 sentences"));
  CHECK_THROWS_WITH(SubwordTokenizer({.vocabulary = 10}, {}, views(sample_sentences())),
                    contains("a vocabulary of 10 has no room for the ") && contains("expected at least "));
}

TEST_CASE("Small and odd texts make subwords or an error, and nothing else", "[text]") {
  // SentencePiece takes U+2581 for a space, U+2585 for its own, and leaves out the names of fixed tokens.
  const struct {
    std::vector<std::string> text;
    bool is_given_back;
  } cases[] = {{{"a"}, true},
               {{"a", "b"}, true},
               {{"\u2581"}, false},
               {{"\u2585"}, false},
               {{"<unk> <s> </s> <pad>", "a < s > d / u n k p"}, true},
               {{std::string(100'000, 'a'), "a b"}, true},
               {{std::string(4192, 'a')}, true},
               {{"1º ½ ﬁ 1º ½ ﬁ"}, true},  // no compatibility forms
               {{"\u0301"}, true},
               {{"😀😀😀", "😀"}, true},
               {std::vector<std::string>(100, "aaaa bbbb"), true}};
  const PieceModel model = GENERATE(PieceModel::unigram, PieceModel::bpe);
  int made = 0;
  for (const auto& [text, is_given_back] : cases) {
    CAPTURE(text.front().substr(0, 20));
    try {
      const SubwordTokenizer subwords({.model = model}, {}, views(text));
      ++made;
      for (const std::string& sentence : text) {
        const Tokens tokens = subwords.encode(sentence);
        CHECK(std::ranges::none_of(tokens, [](std::int32_t token) {
          return token == token_ids::padding || token == token_ids::begin || token == token_ids::end;
        }));
        if (is_given_back) CHECK(subwords.decode(tokens) == sentence);
      }
      CHECK(loaded(subwords.content(), {.model = model}).content() == subwords.content());
    } catch (const ValueError& error) {
      CHECK_THAT(error.what(), contains("SentencePiece cannot"));
    }
  }
  CHECK(made >= 6);
  CHECK_THROWS_WITH(SubwordTokenizer({.model = model}, {}, views({std::string(4193, 'a')})),
                    contains("expected at least one of 1 to 4192 bytes"));
}

TEST_CASE("What is wrong in a list of pieces is refused", "[text]") {
  const auto changed = [](const auto& change) {
    PieceList list = three_pieces();
    change(list.pieces[1]);
    return [list] { load(list); };
  };
  CHECK_NOTHROW(changed([](auto&) {})());
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text = ""; })(), contains("token 5 is empty"));
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text = "b"; })(),
                    contains("token 6 is 'b', which is there before"));
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text = "<unk>"; })(),
                    contains("token 5 is '<unk>', which is there"));
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text = "\xC3"; })(), contains("token 5 is not UTF-8"));
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text = "a b"; })(), contains("token 5 has a space"));
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text = std::string("a\0b", 3); })(), contains("control"));
  CHECK_THROWS_WITH(changed([](auto& piece) { piece.text.assign(257, 'a'); })(),
                    contains("token 5 is too long"));
  for (const float score :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1.1e7F})
    CHECK_THROWS_WITH(changed([&](auto& piece) { piece.score = score; })(),
                      contains("token 5 has the score"));
  CHECK_THROWS_WITH(load({.model = PieceModel::unigram, .pieces = {}}),
                    contains("has 4 pieces; expected 5 at least"));
}

TEST_CASE("A model that the options do not allow is refused", "[text]") {
  const std::string model = model_of(three_pieces());
  CHECK_NOTHROW(loaded(model, {.vocabulary = 7}));
  CHECK_THROWS_WITH(loaded(model, {.vocabulary = 6}), contains("has 7 pieces; expected 6 at most"));
  CHECK_THROWS_WITH(loaded(model, {.model = PieceModel::bpe}), contains("kind unigram; expected bpe"));
}

TEST_CASE("Bytes that are no SentencePiece model are refused", "[text]") {
  const std::string model = model_of(three_pieces());
  CHECK_THROWS_WITH(loaded(""), contains("has 0 pieces"));
  CHECK_THROWS_WITH(loaded(model.substr(0, model.size() - 1)), contains("damaged or truncated"));
  CHECK_THROWS_WITH(loaded("no model"), contains("no SentencePiece model"));
  CHECK_THROWS_WITH(loaded(std::string(20, '\xFF')), contains("no SentencePiece model"));
  for (std::size_t length = 0; length < model.size(); ++length) {
    // Without the end, which has defaults alone, it may be a model still.
    try {
      const SubwordTokenizer cut = loaded(model.substr(0, length));
      CHECK(cut.size() <= 7);
    } catch (const ValueError&) {
    }
  }
  // The fixed pieces are where they are: a model with <unk> first, as SentencePiece makes them unasked.
  std::string others = model;
  others.replace(others.find("<pad>"), 5, "<unk>");
  CHECK_THROWS_WITH(loaded(others), contains("piece 0 of the SentencePiece model is not <pad>"));
  std::string bytes = model;  // kind of <unk>: control
  bytes[bytes.find("<unk>") + 5 + 1 + 4 + 1] = 3;
  CHECK_THROWS_WITH(loaded(bytes), contains("piece 1 of the SentencePiece model is not <unk>"));
  bytes = model;  // kind of the last piece: a byte
  bytes[bytes.find("\n\x01"
                   "b") +
        3 + 1 + 4 + 1] = 6;
  CHECK_THROWS_WITH(loaded(bytes), contains("token 6 is of kind 6; expected 1"));
  bytes = model;  // the piece of a number
  bytes[bytes.find(
      "\n\x01"
      "b")] = 0x08;
  CHECK_THROWS_WITH(loaded(bytes), contains("field 1 is of another kind"));
}

TEST_CASE("Only pieces and their kind are taken from a model", "[text]") {
  // A map of characters (field 2 of the normalizer, field 3) that SentencePiece would read beyond its end.
  std::string map = "\x12\x10" + std::string(16, '\xEE');
  std::string model = model_of(three_pieces()) + std::string("\x1A") + static_cast<char>(map.size()) + map;
  CHECK(loaded(model).content() == model_of(three_pieces()));
  CHECK(loaded(model).encode("abba") == Tokens{4, 6, 5});
}
