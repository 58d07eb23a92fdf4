#pragma once

#include <variant>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

class WordTokenizer;
class SubwordTokenizer;

/// How many tokens there may be: the four that are fixed and one of the text, to a million.
inline constexpr Domain vocabulary_domain{.low = 5, .high = 1'000'000};

/// Tokens are words and punctuation marks, the most frequent ones of the training sentences.
struct WordTokens {
  using Made = WordTokenizer;
  static constexpr const char* name = "word";
  /// Tokens at most, with the four that are fixed.
  Index vocabulary = 30'000;

  static void fields(auto&& visit) {
    visit("vocabulary", &WordTokens::vocabulary, vocabulary_domain, "tokens at most");
  }
};

/// How SentencePiece finds its pieces: a unigram language model (Kudo, "Subword regularization", ACL 2018) or
/// byte pair encoding (Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword
/// units", ACL 2016).
enum class PieceModel { unigram, bpe };
template <>
struct Names<PieceModel> {
  using enum PieceModel;
  static constexpr Choice<PieceModel> list[] = {{"unigram", unigram}, {"bpe", bpe}};
};

/// Tokens are parts of words (Kudo and Richardson, "SentencePiece", EMNLP 2018).
struct SentencePieces {
  using Made = SubwordTokenizer;
  static constexpr const char* name = "sentencepiece";
  /// Tokens at most, with the four that are fixed. Small texts have fewer.
  Index vocabulary = 8'000;
  PieceModel model = PieceModel::unigram;

  static void fields(auto&& visit) {
    visit("vocabulary", &SentencePieces::vocabulary, vocabulary_domain, "tokens at most");
    visit("model", &SentencePieces::model, domain::any, "unigram, or bpe for byte pair encoding");
  }
};

/// Every kind of tokenizer.
using TokenizerOptions = std::variant<WordTokens, SentencePieces>;

}  // namespace orthornn
