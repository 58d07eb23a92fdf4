#pragma once

#include <string>
#include <unordered_map>

#include "orthornn/text/tokenizer.hpp"

namespace orthornn {

/// A tokenizer whose tokens are words and punctuation marks (`normalize`), the most frequent ones first,
/// equally frequent ones in the order of their bytes. Words that are not in the vocabulary, and words of more
/// than 256 bytes, are unknown.
class WordTokenizer final : public Tokenizer {
 public:
  /// Takes the most frequent words of these sentences. Throws ValueError for sentences that are not UTF-8,
  /// and where they have no word.
  WordTokenizer(const WordTokens& options, const NormalizationOptions& normalization,
                std::span<const std::string_view> sentences);
  /// Takes the words of a `content`, each in a line of its own, in the order of their tokens. Throws
  /// ValueError for text that is not UTF-8, for more words than the options allow, and for a word that is
  /// empty, longer than 256 bytes, there twice, or has a space or control character, which `normalize` does
  /// not leave in words.
  WordTokenizer(const WordTokens& options, const NormalizationOptions& normalization,
                std::string_view content);

  Index size() const override;
  std::vector<std::int32_t> encode(std::string_view sentence) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::string_view text_of(std::int32_t token) const override;
  std::string content() const override;

  /// Words of a sentence, one for each token of `encode`; a translation copies an unknown word from them.
  /// Throws ValueError for text that is not UTF-8.
  std::vector<std::string> words(std::string_view sentence) const;

 private:
  void number_words();

  /// Words of the vocabulary, without the special tokens.
  std::vector<std::string> words_;
  std::unordered_map<std::string_view, std::int32_t> tokens_;
};

}  // namespace orthornn
