#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/nn/beam_search.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn {

/// A translation of a sentence, as a reader writes it.
struct Translation {
  std::string text = {};
  /// As in Hypothesis.
  double log_probability = 0;
  double score = 0;
  bool complete = true;
};

/// A translation, and which tokens of the sentence each of its tokens was made of.
struct AlignedTranslation {
  Translation translation = {};
  /// Tokens as text. "</s>" is the end, which the sentence always has, and the answer where it is complete.
  std::vector<std::string> source = {};
  std::vector<std::string> target = {};
  /// Attention weights [target][source]. Each row sums to 1.
  std::vector<std::vector<float>> attention = {};
};

/// Translates sentences by a model and the tokenizers that it was trained with. One thread at a time.
class Translator {
 public:
  /// Prepares the model, once for all sentences. Model and task must outlive it, and the parameters must not
  /// change in the meantime. Throws ValueError for a model and a task of different tokens.
  Translator(EncoderDecoder<float>& model, const TranslationTask& task);

  /// Translations of each sentence, the best first, at most `options.beam` of them; one empty translation of
  /// a blank sentence. A word that is not known is copied from the position that attention points to, where
  /// tokens are words. The sentences go through the model `batch` at a time, in the order of their lengths;
  /// neither changes a translation, up to rounding. Throws ValueError for text that is not UTF-8, and for
  /// more than `TranslationOptions::most_tokens` tokens. `before_batch` is called before each batch, and may
  /// throw to leave the rest.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> sentences,
                                                  const BeamSearchOptions& options = {}, Index batch = 64,
                                                  const std::function<void()>& before_batch = {});
  /// The best translation of a sentence, with its attention; a blank one has no tokens. Throws as
  /// `translate`.
  AlignedTranslation align(std::string_view sentence, const BeamSearchOptions& options = {});
  /// Throws what `translate` would throw of this sentence.
  void check(std::string_view sentence) const;

 private:
  std::vector<std::int32_t> encode(std::string_view sentence) const;
  /// Answers to sentences of some tokens, together.
  std::vector<std::vector<Hypothesis>> search(std::span<const std::vector<std::int32_t>* const> sentences,
                                              const BeamSearchOptions& options);
  Translation translation(std::string_view sentence, const Hypothesis& hypothesis) const;
  std::vector<std::string> words_of(std::string_view sentence, const Hypothesis& hypothesis) const;

  const TranslationTask& task_;
  EncoderDecoder<float>::Generator generator_;
  /// source and source_lengths of the sentences that are translated together.
  Batch batch_;
  HostStaging staging_;
};

}  // namespace orthornn
