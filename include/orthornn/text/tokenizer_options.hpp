#pragma once

#include <variant>

#include "orthornn/core/fields.hpp"
#include "orthornn/core/shape.hpp"

namespace orthornn {

class WordTokenizer;
class SubwordTokenizer;

/// Range of the number of tokens: from 5, the four special tokens and one token of the text, to a million.
inline constexpr Domain vocabulary_domain{.low = 5, .high = 1'000'000};

/// Options of a WordTokenizer: tokens are the most frequent words and punctuation marks of the training
/// sentences.
struct WordTokens {
  using Made = WordTokenizer;
  static constexpr const char* name = "word";  ///< Name in files and on the command line.
  /// Largest number of tokens, with the four special tokens.
  Index vocabulary = 30'000;

  static void fields(auto&& visit) {
    visit("vocabulary", &WordTokens::vocabulary, vocabulary_domain, "tokens at most");
  }
};

/// How SentencePiece finds its pieces.
enum class PieceModel {
  unigram,  ///< A unigram language model (Kudo, "Subword regularization", ACL 2018).
  /// Byte pair encoding (Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword
  /// units", ACL 2016).
  bpe
};
template <>
struct Names<PieceModel> {
  using enum PieceModel;
  static constexpr Choice<PieceModel> list[] = {{"unigram", unigram}, {"bpe", bpe}};
};

/// Options of a SubwordTokenizer: tokens are parts of words (Kudo and Richardson, "SentencePiece", EMNLP
/// 2018).
struct SentencePieces {
  using Made = SubwordTokenizer;
  static constexpr const char* name = "sentencepiece";  ///< Name in files and on the command line.
  /// Largest number of tokens, with the four special tokens. Small texts have fewer.
  Index vocabulary = 8'000;
  /// How the pieces are found.
  PieceModel model = PieceModel::unigram;

  static void fields(auto&& visit) {
    visit("vocabulary", &SentencePieces::vocabulary, vocabulary_domain, "tokens at most");
    visit("model", &SentencePieces::model, domain::any, "unigram, or bpe for byte pair encoding");
  }
};

/// Options of a tokenizer of any kind.
using TokenizerOptions = std::variant<WordTokens, SentencePieces>;

}  // namespace orthornn
