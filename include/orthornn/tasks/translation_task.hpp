#pragma once

#include <memory>
#include <span>

#include "orthornn/core/host_staging.hpp"
#include "orthornn/tasks/task.hpp"
#include "orthornn/text/length_buckets.hpp"
#include "orthornn/text/parallel_text.hpp"
#include "orthornn/text/tokenizer.hpp"

namespace orthornn {

class TranslationTask;

/// Direction of the translation. The names in files, "en-es" and "es-en", are those of the English and
/// Spanish pairs; other texts have other languages in their first and second column.
enum class Direction {
  first_to_second,  ///< The first column is translated into the second.
  second_to_first   ///< The second column is translated into the first.
};
template <>
struct Names<Direction> {
  using enum Direction;
  static constexpr Choice<Direction> list[] = {{"en-es", first_to_second}, {"es-en", second_to_first}};
};

/// Kind of the tokens of the two languages (TokenizerOptions).
enum class TokenizerKind {
  word,          ///< Tokens are words (WordTokens).
  sentencepiece  ///< Tokens are parts of words (SentencePieces).
};
template <>
struct Names<TokenizerKind> {
  using enum TokenizerKind;
  static constexpr Choice<TokenizerKind> list[] = {{"word", word}, {"sentencepiece", sentencepiece}};
};

/// Options of a TranslationTask.
struct TranslationOptions {
  using Made = TranslationTask;
  static constexpr const char* name = "translate";  ///< Name in files and on the command line.
  static constexpr const char* usual_data =
      "data/tatoeba";  ///< Folder into which tools/fetch-data puts them.
  /// Largest number of tokens that a sentence may have.
  static constexpr Index most_tokens = 1000;
  /// Path for `read_parallel_text`: a zip archive, a text, or a folder with one of them.
  std::filesystem::path data = {};
  /// Direction of the translation.
  Direction direction = Direction::first_to_second;
  /// Number of pairs that are used, drawn from the seed; 0 for all.
  Index pairs = 0;
  /// Kind of the tokens.
  TokenizerKind tokenizer = TokenizerKind::word;
  /// Largest number of tokens of each language; 0 for the tokenizer's default.
  Index vocabulary = 0;
  /// Whether capital letters are kept; otherwise texts are in lower case.
  bool keep_case = false;
  /// Whether accents are removed in the two languages.
  bool strip_accents = false;
  /// Largest number of tokens on a side of a pair, 1 to `most_tokens`; longer pairs are left out.
  Index longest = 100;
  /// Pairs B of a batch, >= 1.
  Index batch = 128;
  /// Seed that decides the split into training, validation and test, and the order of the pairs in each
  /// epoch.
  std::uint64_t seed = 1;
  /// Parts of the task that a model was trained with (Task::parts); copied. Empty: vocabularies are made of
  /// the training sentences.
  std::vector<TaskPart> parts = {};

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    using Self = TranslationOptions;
    visit("direction", &Self::direction, domain::any,
          "from the first column to the second (en-es), or back (es-en)");
    visit("pairs", &Self::pairs, Domain{.low = 0, .high = 1e12}, "sentence pairs that are used, 0 for all");
    visit("tokenizer", &Self::tokenizer, domain::any, "word, or sentencepiece for parts of words");
    visit("vocabulary", &Self::vocabulary, Domain{.low = 0, .high = vocabulary_domain.high},
          "tokens of each language from 5, or 0 for 30000 words or 8000 pieces");
    visit("keep_case", &Self::keep_case, domain::any, "keep capital letters");
    visit("strip_accents", &Self::strip_accents, domain::any, "remove accents in both languages");
    visit("longest", &Self::longest, Domain{.low = 1, .high = most_tokens},
          "pairs with more tokens on a side are left out");
  }
};

/// Translation of sentences, such as the English and Spanish pairs of tatoeba.org. Batches have
/// batch_names::source [S, B] (the tokens and the end), target [T, B] (begin and the tokens), classes [T, B]
/// (the tokens and the end; -1 beyond the length), source_lengths and target_lengths [B].
///
/// The pairs are split by the sentences of the first column, so a seed gives one split for both directions. A
/// batch has pairs of similar lengths. The task reads the text when it is first needed. It keeps one epoch's
/// order, so one thread at a time may use it.
class TranslationTask final : public Task {
 public:
  /// Makes the task; reads no file. Throws ValueError for an option outside its domain and for parts that are
  /// no tokenizers.
  explicit TranslationTask(const TranslationOptions& options = {});

  std::string name() const override { return TranslationOptions::name; }
  SequenceData data() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  /// Tokens of the longest sentence of the two languages, with its end; `longest` + 1 before the data are
  /// read.
  Index length() const override;
  /// Number of training batches of an epoch. Reads the data, and throws as `load`.
  std::optional<Index> batches_per_epoch() const override;
  /// Entropy in nats of a token of the training targets, without its context. Reads the data, and throws as
  /// `load`.
  double baseline_loss() const override;
  /// Whether the loss is below 0.01 a token, which a model reaches on few sentences that it knows by heart.
  bool solved(const Evaluation& evaluation) const override { return evaluation.loss < 0.01; }

  /// Reads the data unless they have been read. Throws FileError for a text that cannot be read or is not the
  /// text of the parts that were given, and ValueError for a text that leaves a split without pairs.
  void load() const override;
  void training_batch(std::uint64_t step, Batch& batch) const override;
  /// Number of batches of a held-out set. Reads the data, and throws as `load`.
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  std::string config() const override;
  /// The parts "source_tokenizer", "target_tokenizer" and "data", a checksum of the pairs: a text that has
  /// changed would be split in another way. Reads the data, and throws as `load`, unless the options had the
  /// parts.
  std::vector<TaskPart> parts() const override;

  /// Tokenizer of the sources. Reads the data, and throws as `load`, unless the options had the parts.
  const Tokenizer& source_tokenizer() const;
  /// Tokenizer of the targets. Reads the data, and throws as `load`, unless the options had the parts.
  const Tokenizer& target_tokenizer() const;
  /// How a sentence is normalised before it becomes tokens.
  NormalizationOptions normalization() const;
  /// Pairs of a held-out set, as the text has them. Reads the data, and throws as `load`.
  std::span<const SentencePair> held_out_pairs(HeldOut set) const;
  /// Says what was left out of the text, and whether it has fewer pairs than were asked for.
  std::string left_out() const override;
  /// Five short pairs of the test data, a line each with a tab between source and target.
  std::string text_sample() const override;

 private:
  /// Pairs as tokens, without begin and end.
  struct Encoded {
    std::vector<std::vector<std::int32_t>> source, target;
    std::vector<SentencePair> pairs;
    EpochBatches batches;
  };

  /// Adds to `too_long` how many it leaves out.
  Encoded encode(std::vector<SentencePair> pairs, const Tokenizer& source_tokenizer,
                 const Tokenizer& target_tokenizer, Index& too_long) const;
  void read_parts();
  const Encoded& held_out(HeldOut set) const;
  void fill(const Encoded& pairs, Index number, Batch& batch) const;

  TranslationOptions options_;
  // What is read or made when it is first needed.
  mutable std::shared_ptr<const Tokenizer> source_tokenizer_, target_tokenizer_;
  /// Parts of these tokenizers, and the checksum of the pairs; none before they are there.
  mutable std::vector<TaskPart> parts_;
  mutable Encoded training_, validation_, test_;
  mutable std::optional<LengthBuckets> buckets_;
  mutable std::optional<std::uint64_t> epoch_;
  mutable std::vector<SkippedLines> skipped_;
  /// Number of pairs of the text.
  mutable Index all_pairs_ = 0;
  mutable Index too_long_ = 0;
  mutable Index longest_sentence_ = 0;
  mutable double entropy_ = 0;
  // Memory for filling a batch, kept so that the next batch takes no memory.
  mutable std::vector<const std::vector<std::int32_t>*> sources_, targets_;
  mutable HostStaging staging_;
};

}  // namespace orthornn
