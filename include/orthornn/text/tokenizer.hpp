#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/text/normalization.hpp"
#include "orthornn/text/tokenizer_options.hpp"

namespace orthornn {

/// The numbers of the tokens that every tokenizer has. What the text has follows.
namespace token_ids {
inline constexpr std::int32_t padding = 0;
/// What is not in the vocabulary.
inline constexpr std::int32_t unknown = 1;
inline constexpr std::int32_t begin = 2;
inline constexpr std::int32_t end = 3;
inline constexpr std::int32_t first_of_text = 4;
}  // namespace token_ids

/// Sentences as numbers 0 .. size - 1, and back. Does not change; several threads may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Name of the kind, as in TokenizerOptions.
  std::string kind() const { return name_of(options_); }
  const TokenizerOptions& options() const { return options_; }
  const NormalizationOptions& normalization() const { return normalization_; }

  /// Tokens, with the four of `token_ids`.
  virtual Index size() const = 0;
  /// The tokens of a sentence as a reader writes it, without begin and end. It is normalised first. Throws
  /// ValueError for text that is not UTF-8.
  virtual std::vector<std::int32_t> encode(std::string_view sentence) const = 0;
  /// A sentence for readers, up to the first end. Padding and begin are left out; unknown is <unk>. Throws
  /// ValueError for a number outside 0 .. size - 1.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// One token as text: a word, <unk>; a piece as SentencePiece writes it. Throws as `decode`.
  virtual std::string_view text_of(std::int32_t token) const = 0;

  /// What `load_tokenizer` makes an equal tokenizer of: a line "orthornn tokenizer 1", a line of JSON with
  /// the options, and the `content`.
  std::string serialize() const;
  /// The vocabulary: a line for each word, or a SentencePiece model (protocol buffer ModelProto).
  virtual std::string content() const = 0;

 protected:
  Tokenizer(const TokenizerOptions& options, const NormalizationOptions& normalization)
      : options_(options), normalization_(normalization) {}

  /// The tokens up to the first end, without padding and begin. Throws as `decode`.
  std::vector<std::int32_t> tokens_of_text(std::span<const std::int32_t> tokens) const;
  void check_token(std::int32_t token) const;

 private:
  TokenizerOptions options_;
  NormalizationOptions normalization_;
};

/// A tokenizer whose vocabulary is that of these sentences, which are those for training alone: what is known
/// of a test must not show in the vocabulary. The same sentences in the same order make the same tokenizer.
/// Throws ValueError for options outside their domain, sentences that are not UTF-8 or all blank, and as the
/// kinds.
std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerOptions& options,
                                           const NormalizationOptions& normalization,
                                           std::span<const std::string_view> sentences);

/// The tokenizer that was serialized to these bytes, which may come from a stranger: everything in them is
/// checked before use. Throws ValueError that says what was expected and found.
std::unique_ptr<Tokenizer> load_tokenizer(std::string_view bytes);

}  // namespace orthornn
