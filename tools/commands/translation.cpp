#include "commands/translation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "commands/program.hpp"
#include "commands/progress.hpp"
#include "support/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

constexpr Index sentences_of_batch = 64;

/// So many numbers below `count` at equal distances, or all.
std::vector<std::size_t> spread(Index count, Index sample) {
  sample = std::min(sample, count);
  std::vector<std::size_t> numbers;
  for (Index i = 0; i < sample; ++i) numbers.push_back(static_cast<std::size_t>(i * count / sample));
  return numbers;
}

/// The best translation of each.
std::vector<std::string> translations_of(Translator& translator, const std::vector<std::string>& sentences,
                                         const BeamSearchOptions& search) {
  // Many batches at a time, so that sentences of one length meet.
  constexpr std::size_t at_a_time = 8 * sentences_of_batch;
  Progress progress("translating", std::ssize(sentences), "sentences");
  std::vector<std::string> texts;
  for (std::size_t first = 0; first < sentences.size(); first += at_a_time) {
    const std::size_t count = std::min(at_a_time, sentences.size() - first);
    for (const auto& found : translator.translate(std::span(sentences).subspan(first, count), search,
                                                  sentences_of_batch, leave_if_stop_requested))
      texts.push_back(found.empty() ? "" : found[0].text);
    progress.advance(static_cast<Index>(count));
  }
  return texts;
}

}  // namespace

std::vector<std::string> translation_tasks() { return {TranslationOptions::name}; }

bool is_translation(const std::string& task) { return task == TranslationOptions::name; }

LoadedTranslator::LoadedTranslator(const std::string& file, const Execution& execution) {
  ModelFileInfo info;
  model_ = load_encoder_decoder(file, execution, &info);
  if (info.task_config.empty())
    throw FileError(fmt::format("{} was saved without its task, which has the vocabularies", file));
  task_ = task_of_model(info);
  const auto* pairs = dynamic_cast<const TranslationTask*>(task_.get());
  if (pairs == nullptr) {
    throw FileError(fmt::format("{} was trained on the task {}; expected {}", file, info.task_name,
                                TranslationOptions::name));
  }
  translator_ = std::make_unique<Translator>(*model_, *pairs);
}

TestEvaluation evaluate_test_data(Model<float>& model, const Task& task) {
  const Index batches = task.evaluation_batches(HeldOut::test);
  const bool has_pairs = task.data().pairs;
  Progress progress("evaluating on test data", batches, "batches");
  double means = 0;
  const auto look = [&](const Batch& batch, const BatchLoss& loss) {
    if (has_pairs) means += loss.sum / static_cast<double>(batch.integers(batch_names::classes).size());
    progress.advance();
  };
  const Evaluation evaluation = evaluate(model, task, HeldOut::test, look, leave_if_stop_requested);
  return {evaluation, means / static_cast<double>(batches)};
}

std::optional<TranslationMetrics> translation_metrics(Model<float>& tested_model, const Task& tested_task,
                                                      const TestEvaluation& evaluation,
                                                      const BeamSearchOptions& search, Index sample) {
  const auto* task = dynamic_cast<const TranslationTask*>(&tested_task);
  auto* model = dynamic_cast<EncoderDecoder<float>*>(&tested_model);
  if (task == nullptr || model == nullptr) return std::nullopt;
  TranslationMetrics metrics{.cross_entropy = evaluation.of_targets.loss,
                             .cross_entropy_with_padding = evaluation.cross_entropy_with_padding};
  std::vector<std::string> sources, references;
  for (const SentencePair& pair : task->held_out_pairs(HeldOut::test)) {
    sources.push_back(pair.source);
    references.push_back(clean_text(pair.target, task->normalization()));
  }
  Translator translator(*model, *task);
  const std::vector<std::string> texts = translations_of(translator, sources, search);
  metrics.sentences = std::ssize(texts);
  const std::vector<std::vector<std::string>> one_each = {references};
  metrics.bleu = bleu(bleu_statistics(texts, one_each));
  metrics.chrf = chrf(chrf_statistics(texts, one_each));
  for (const std::size_t number : spread(metrics.sentences, sample))
    metrics.sample.push_back({sources[number], references[number], texts[number]});
  return metrics;
}

void print_metrics(const TranslationMetrics& metrics, const BeamSearchOptions& search) {
  fmt::print("  {:20} {:.4g} a target token; {:.4g} if padding is counted as tutorials do\n", "perplexity",
             std::exp(metrics.cross_entropy), std::exp(metrics.cross_entropy_with_padding));
  fmt::print("  {:20} {} of {} sentences, beam {}\n", "translations",
             score_text(metrics.bleu) + ", " + score_text(metrics.chrf), metrics.sentences, search.beam);
  fmt::print("  {:20} {}\n  {:20} {}\n", "", metrics.bleu.signature, "", metrics.chrf.signature);
  for (const TranslationSample& line : metrics.sample) {
    fmt::print("  source       {}\n  reference    {}\n  translation  {}\n\n", printable(line.source),
               printable(line.reference), printable(line.translation));
  }
}

Json json_of(const TranslationMetrics& metrics, const BeamSearchOptions& search) {
  Json json = {{"perplexity", std::exp(metrics.cross_entropy)},
               {"cross_entropy_with_padding", metrics.cross_entropy_with_padding},
               {"perplexity_with_padding", std::exp(metrics.cross_entropy_with_padding)},
               {"beam", search.beam},
               {"length_penalty", search.length_penalty},
               {"sentences", metrics.sentences},
               {"bleu", {{"score", metrics.bleu.score}, {"signature", metrics.bleu.signature}}},
               {"chrf", {{"score", metrics.chrf.score}, {"signature", metrics.chrf.signature}}},
               {"sample", Json::array()}};
  for (const TranslationSample& line : metrics.sample) {
    json["sample"].push_back(
        {{"source", line.source}, {"reference", line.reference}, {"translation", line.translation}});
  }
  return json;
}

}  // namespace orthornn::program
