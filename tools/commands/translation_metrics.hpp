#pragma once
// What translations of a test set are worth.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "orthornn/orthornn.hpp"

namespace orthornn::program {

/// So many of the pairs, or all where there are fewer, spread over them.
std::vector<SentencePair> sample_of(std::span<const SentencePair> pairs, Index sample);

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

/// Translates the test set, of which `evaluation` is. References are cleaned as the task's sentences are
/// (case, accents). Shows progress on standard error. `sample`: so many of the sentences, spread over the
/// set. Throws Interrupted where a StopOnSignal lives and a stop is asked for.
TranslationMetrics translation_metrics(EncoderDecoder<float>& model, const TranslationTask& task,
                                       const TestEvaluation& evaluation, const BeamSearchOptions& search,
                                       Index sample);

void print_metrics(const TranslationMetrics& metrics, const BeamSearchOptions& search);
nlohmann::ordered_json json_of(const TranslationMetrics& metrics, const BeamSearchOptions& search);

}  // namespace orthornn::program
