#pragma once

#include <memory>
#include <string>

#include "orthornn/text/tokenizer.hpp"

namespace orthornn {

/// A tokenizer whose tokens are parts of words, called pieces, that SentencePiece finds in clean text
/// (`clean_text`). Punctuation and spaces are parts of pieces. `decode` gives back the clean sentence if all
/// its characters are known. The character U+2581 in a sentence is a space: SentencePiece writes spaces so.
class SubwordTokenizer final : public Tokenizer {
 public:
  /// Trains a model in memory, in one thread and without random choices. Sentences of more than 4,192 bytes,
  /// or with U+2585, are left out. Every character of the others gets a token. Throws ValueError, such as for
  /// a vocabulary that is smaller than the number of characters.
  SubwordTokenizer(const SentencePieces& options, const NormalizationOptions& normalization,
                   std::span<const std::string_view> sentences);
  /// Takes the pieces of a SentencePiece model; the rest of the model is not used. Throws ValueError for
  /// bytes that are no such model, for a model of another kind than the options', for more pieces than they
  /// allow, and for other pieces than `<pad>`, `<unk>`, `<s>` and `</s>` at 0 to 3. It also throws ValueError
  /// for a later piece that is empty, longer than 256 bytes, there twice, not clean text or not of the kind
  /// "normal", and for a score that is not a number between -1e7 and 1e7.
  SubwordTokenizer(const SentencePieces& options, const NormalizationOptions& normalization,
                   std::string_view content);
  ~SubwordTokenizer() override;

  Index size() const override;
  std::vector<std::int32_t> encode(std::string_view sentence) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::string_view text_of(std::int32_t token) const override;
  /// The model as a protocol buffer ModelProto, with only the fields that encoding and decoding need.
  std::string content() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orthornn
