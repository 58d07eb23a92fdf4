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

/// Numbers of the four tokens that every tokenizer has, called special tokens. The tokens of the text follow.
namespace token_ids {
/// Token of padding.
inline constexpr std::int32_t padding = 0;
/// Token of everything that is not in the vocabulary.
inline constexpr std::int32_t unknown = 1;
/// Token before a sentence.
inline constexpr std::int32_t begin = 2;
/// Token after a sentence.
inline constexpr std::int32_t end = 3;
/// First token of the text.
inline constexpr std::int32_t first_of_text = 4;
}  // namespace token_ids

/// Turns sentences into numbers 0 to size - 1, called tokens, and back. A tokenizer does not change; several
/// threads may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Name of the kind, as in TokenizerOptions.
  std::string kind() const { return name_of(options_); }
  /// Options that the tokenizer was made with.
  const TokenizerOptions& options() const { return options_; }
  /// How sentences are normalised.
  const NormalizationOptions& normalization() const { return normalization_; }

  /// Number of tokens, with the four special tokens of `token_ids`.
  virtual Index size() const = 0;
  /// Returns the tokens of a sentence as a reader writes it, without begin and end. The sentence is
  /// normalised first. Throws ValueError for text that is not UTF-8.
  virtual std::vector<std::int32_t> encode(std::string_view sentence) const = 0;
  /// Returns a sentence for readers from the tokens up to the first end. Padding and begin are left out;
  /// unknown becomes `<unk>`. Throws ValueError for a number outside 0 to size - 1.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// Text of one token: a word, a piece as SentencePiece writes it, or a special token such as `<unk>`.
  /// Throws as `decode`.
  virtual std::string_view text_of(std::int32_t token) const = 0;

  /// Returns bytes from which `load_tokenizer` makes an equal tokenizer: a line "orthornn tokenizer 1", a
  /// line of JSON with the options, and the `content`.
  std::string serialize() const;
  /// The vocabulary: a line for each word, or a SentencePiece model (protocol buffer ModelProto).
  virtual std::string content() const = 0;

 protected:
  /// Keeps the options.
  Tokenizer(const TokenizerOptions& options, const NormalizationOptions& normalization)
      : options_(options), normalization_(normalization) {}

  /// The tokens up to the first end, without padding and begin. Throws as `decode`.
  std::vector<std::int32_t> tokens_of_text(std::span<const std::int32_t> tokens) const;
  /// Throws ValueError for a number outside 0 to size - 1.
  void check_token(std::int32_t token) const;

 private:
  TokenizerOptions options_;
  NormalizationOptions normalization_;
};

/// Makes a tokenizer with the vocabulary of these sentences. Give it training sentences alone: a vocabulary
/// with test sentences would know something of the test. Equal sentences in equal order make equal
/// tokenizers. Throws ValueError for options outside their domain, for sentences that are not UTF-8 or all
/// blank, and as the constructors of the kinds.
std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerOptions& options,
                                           const NormalizationOptions& normalization,
                                           std::span<const std::string_view> sentences);

/// Makes the tokenizer that was serialized to these bytes. They may come from a stranger: everything in them
/// is checked before use. Throws ValueError, which says what was expected and found.
std::unique_ptr<Tokenizer> load_tokenizer(std::string_view bytes);

}  // namespace orthornn
