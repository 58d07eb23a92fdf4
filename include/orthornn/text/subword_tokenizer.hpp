#pragma once

#include <memory>
#include <string>

#include "orthornn/text/tokenizer.hpp"

namespace orthornn {

/// Parts of words as tokens, found by SentencePiece in clean text (`clean_text`): punctuation and spaces are
/// a part of the tokens. `decode` gives back the clean sentence if all its characters are known. The
/// character U+2581 in a sentence is a space: SentencePiece writes spaces so.
class SubwordTokenizer final : public Tokenizer {
 public:
  /// Trains a model in memory, in one thread and without random choices. Sentences of more than 4,192 bytes,
  /// or with U+2585, are left out. Every character of the others gets a token. Throws ValueError with
  /// SentencePiece's reason, as when the vocabulary is smaller than the number of characters.
  SubwordTokenizer(const SentencePieces& options, const NormalizationOptions& normalization,
                   std::span<const std::string_view> sentences);
  /// With the pieces of a SentencePiece model; what else the model says is not used. Throws ValueError for
  /// bytes that are no such model, and for one that is not of the options' kind, has more pieces than they
  /// allow, other pieces than <pad>, <unk>, <s>, </s> at 0 .. 3, or after them a piece that is empty, longer
  /// than 256 bytes, there twice, not clean text, not of the kind "normal", or whose score is not a number
  /// between -1e7 and 1e7.
  SubwordTokenizer(const SentencePieces& options, const NormalizationOptions& normalization,
                   std::string_view content);
  ~SubwordTokenizer() override;

  Index size() const override;
  std::vector<std::int32_t> encode(std::string_view sentence) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::string_view text_of(std::int32_t token) const override;
  /// The model, with what encoding and decoding need of it.
  std::string content() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orthornn
