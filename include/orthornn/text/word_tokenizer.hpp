#pragma once

#include <string>
#include <unordered_map>

#include "orthornn/text/tokenizer.hpp"

namespace orthornn {

/// Words and punctuation marks (`normalize`) as tokens, the most frequent ones first, equally frequent ones
/// in the order of their bytes. Other words are unknown, as are words of more than 256 bytes.
class WordTokenizer final : public Tokenizer {
 public:
  /// With the words of these sentences.
  WordTokenizer(const WordTokens& options, const NormalizationOptions& normalization,
                std::span<const std::string_view> sentences);
  /// With the words of a `content`: each in a line of its own, in the order of their tokens. Throws
  /// ValueError for text that is not UTF-8, more words than the options allow, and a word that is empty,
  /// longer than 256 bytes, there twice, or not as `normalize` leaves words (a space or control character in
  /// it).
  WordTokenizer(const WordTokens& options, const NormalizationOptions& normalization,
                std::string_view content);

  Index size() const override;
  std::vector<std::int32_t> encode(std::string_view sentence) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::string_view text_of(std::int32_t token) const override;
  std::string content() const override;

  /// The words of a sentence, one for each token of `encode`: what an unknown one may be copied from.
  std::vector<std::string> words(std::string_view sentence) const;

 private:
  void number_words();

  /// Without the four of `token_ids`.
  std::vector<std::string> words_;
  std::unordered_map<std::string_view, std::int32_t> tokens_;
};

}  // namespace orthornn
