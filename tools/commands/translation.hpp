#pragma once
// What the program knows of translation alone: translators from model files, and what translations are worth.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/checked_json.hpp"
#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// Names of the tasks that are learned by an EncoderDecoder.
std::vector<std::string> translation_tasks();
/// Whether a task is among them.
bool is_translation(const std::string& task);

/// A model that translates, from its file alone, which has the vocabularies too.
class LoadedTranslator {
 public:
  /// Throws FileError for a file of another kind.
  LoadedTranslator(const std::string& file, const Execution& execution);

  Translator& operator*() const { return *translator_; }
  Translator* operator->() const { return translator_.get(); }

 private:
  std::unique_ptr<EncoderDecoder<float>> model_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Translator> translator_;
};

struct TranslationSample {
  std::string source, reference, translation;
};

/// What a model makes of a task's test data.
struct TestEvaluation {
  Evaluation of_targets;
  /// Of a translation, as tutorials count it: in each batch the sum over its tokens, divided by all its
  /// entries, padding included; then the mean over the batches. Padding makes it smaller.
  double cross_entropy_with_padding = 0;
};
/// Goes over the test data once, with progress on standard error. Throws Interrupted where a StopOnSignal
/// lives and a stop is asked for.
TestEvaluation evaluate_test_data(Model<float>& model, const Task& task);

struct TranslationMetrics {
  /// Mean over the target tokens of the test set, the end of each sentence counted, in nats.
  double cross_entropy = 0;
  /// As in TestEvaluation.
  double cross_entropy_with_padding = 0;
  BleuScore bleu = {};
  ChrfScore chrf = {};
  Index sentences = 0;
  std::vector<TranslationSample> sample = {};
};

/// Translates the test set, of which `evaluation` is; returns nothing for a model that does not translate.
/// References are cleaned as the task's sentences are
/// (case, accents). Shows progress on standard error. `sample`: so many of the sentences, spread over the
/// set. Throws Interrupted where a StopOnSignal lives and a stop is asked for.
std::optional<TranslationMetrics> translation_metrics(Model<float>& model, const Task& task,
                                                      const TestEvaluation& evaluation,
                                                      const BeamSearchOptions& search, Index sample);

void print_metrics(const TranslationMetrics& metrics, const BeamSearchOptions& search);
Json json_of(const TranslationMetrics& metrics, const BeamSearchOptions& search);

}  // namespace orthornn::program
