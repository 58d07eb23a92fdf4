#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orthornn/nn/beam_search.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn {

/// A translation of a sentence, for readers.
struct Translation {
  /// Text as a reader writes it.
  std::string text = {};
  /// Natural logarithm of the translation's probability, as in Hypothesis.
  double log_probability = 0;
  /// Score by which translations are ordered, as in Hypothesis.
  double score = 0;
  /// Whether the translation reached its end, as in Hypothesis.
  bool complete = true;
};

/// A translation with its attention: which tokens of the sentence each of its tokens was made from.
struct AlignedTranslation {
  /// Translation of the sentence.
  Translation translation = {};
  /// Tokens of the sentence as text, with the end, "</s>".
  std::vector<std::string> source = {};
  /// Tokens of the translation as text, with the end, "</s>", where it is complete.
  std::vector<std::string> target = {};
  /// Attention weights [target][source]. Each row sums to 1.
  std::vector<std::vector<float>> attention = {};
};

/// Translates sentences by a model and the tokenizers that it was trained with. One thread at a time may use
/// it.
class Translator {
 public:
  /// Prepares the model, once for all sentences. Model and task must outlive the translator, and the
  /// parameters must not change while it is used. Throws ValueError for a model and a task of different
  /// tokens.
  Translator(EncoderDecoder<float>& model, const TranslationTask& task);

  /// Translates sentences: returns for each at most `options.beam` translations, the best one first, and one
  /// empty translation for a blank sentence. Where tokens are words, an unknown word is copied from the
  /// position that attention points to. The sentences go through the model `batch` at a time, in the order of
  /// their lengths; batch and order change a translation by rounding alone. `before_batch` is called before
  /// each batch, and may throw to leave the rest. Throws ValueError for text that is not UTF-8, for more than
  /// `TranslationOptions::most_tokens` tokens, and for a batch below 1.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> sentences,
                                                  const BeamSearchOptions& options = {}, Index batch = 64,
                                                  const std::function<void()>& before_batch = {});
  /// Returns the best translation of a sentence with its attention; a blank sentence has no tokens. Throws as
  /// `translate`.
  AlignedTranslation align(std::string_view sentence, const BeamSearchOptions& options = {});
  /// Throws the ValueError that `translate` would throw for this sentence.
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
  /// Batch of the sentences that are translated together.
  Batch batch_;
  HostStaging staging_;
};

}  // namespace orthornn
