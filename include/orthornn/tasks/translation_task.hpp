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

/// Which column of a text of sentence pairs is translated into which. The names are those of the English and
/// Spanish pairs; other texts have other languages in their first and second column.
enum class Direction { first_to_second, second_to_first };
template <>
struct Names<Direction> {
  using enum Direction;
  static constexpr Choice<Direction> list[] = {{"en-es", first_to_second}, {"es-en", second_to_first}};
};

/// Tokens of both languages (TokenizerOptions).
enum class TokenizerKind { word, sentencepiece };
template <>
struct Names<TokenizerKind> {
  using enum TokenizerKind;
  static constexpr Choice<TokenizerKind> list[] = {{"word", word}, {"sentencepiece", sentencepiece}};
};

struct TranslationOptions {
  using Made = TranslationTask;
  static constexpr const char* name = "translate";
  /// Tokens that a sentence may have.
  static constexpr Index most_tokens = 1000;
  /// What `read_parallel_text` takes: a zip archive, a text, or a folder with one of them.
  std::filesystem::path data = {};
  Direction direction = Direction::first_to_second;
  /// Pairs that are used, drawn from the seed; 0 for all.
  Index pairs = 0;
  TokenizerKind tokenizer = TokenizerKind::word;
  /// Tokens of each language at most; 0 for the tokenizer's default.
  Index vocabulary = 0;
  bool keep_case = false;
  bool strip_accents = false;
  /// Pairs with more tokens than so many on a side are left out.
  Index longest = 100;
  /// Pairs B of a batch, >= 1.
  Index batch = 128;
  /// Decides the split into training, validation and test, and the order of the pairs in each epoch.
  std::uint64_t seed = 1;
  /// `Task::parts()` of the task that a model was trained with; copied. Empty: vocabularies are made of the
  /// training sentences.
  std::vector<TaskPart> parts = {};

  /// Of `Task::config()`; the others are the TaskSource's.
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
/// The pairs are split by the sentences of the first column, so a seed gives one split for both directions.
/// A batch has pairs of similar lengths. Reads the text when it is first needed. Keeps one epoch's order, so
/// one task serves one thread at a time.
class TranslationTask final : public Task {
 public:
  /// Throws ValueError for an option outside its domain or parts that are no tokenizers; reads no file.
  explicit TranslationTask(const TranslationOptions& options = {});

  std::string name() const override { return TranslationOptions::name; }
  /// Ten epochs. Needs the data.
  TaskDefaults defaults() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  /// Of the longest sentence of either language, with its end; `longest` + 1 before the data are read.
  Index length() const override;
  /// Needs the data.
  std::optional<Index> batches_per_epoch() const override;
  /// Entropy of the training targets' tokens in nats, each by itself. Needs the data.
  double baseline_loss() const override;
  /// A loss below 0.01 a token: a language of few sentences that is known by heart.
  bool solved(const Evaluation& evaluation) const override { return evaluation.loss < 0.01; }

  /// Throws FileError for a text that cannot be read or is another than the one of the parts that were given,
  /// and ValueError for one that leaves a split without pairs.
  void load() const override;
  void training_batch(std::uint64_t step, Batch& batch) const override;
  /// Needs the data.
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  /// A translation is more or less right (`bleu`).
  bool has_accuracy() const override { return false; }
  void count_right(ConstTensorView<float>, const Batch&, TensorView<double>) const override {}

  std::string config() const override;
  /// "source_tokenizer", "target_tokenizer" and "data", a checksum of the pairs: a text that has changed
  /// would be split in another way. Needs the data, unless they were given.
  std::vector<TaskPart> parts() const override;

  /// Need the data, unless the parts were given.
  const Tokenizer& source_tokenizer() const;
  const Tokenizer& target_tokenizer() const;
  /// What a sentence is before it becomes tokens.
  NormalizationOptions normalization() const;
  /// The held-out pairs as the text has them. Needs the data.
  std::span<const SentencePair> held_out_pairs(HeldOut set) const;
  /// What was left out of the text, and whether it has fewer pairs than were asked for, as sentences for
  /// readers; "" when there is nothing to say. Needs the data.
  std::string left_out() const;

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
  /// Of these tokenizers, and the checksum of the pairs; none before they are there.
  mutable std::vector<TaskPart> parts_;
  mutable Encoded training_, validation_, test_;
  mutable std::optional<LengthBuckets> buckets_;
  mutable std::optional<std::uint64_t> epoch_;
  mutable std::vector<SkippedLines> skipped_;
  /// Of the text.
  mutable Index all_pairs_ = 0;
  mutable Index too_long_ = 0;
  mutable Index longest_sentence_ = 0;
  mutable double entropy_ = 0;
  // What filling a batch writes to, kept so that the next one takes no memory.
  mutable std::vector<const std::vector<std::int32_t>*> sources_, targets_;
  mutable HostStaging staging_;
};

}  // namespace orthornn
