#include "orthornn/train/translator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "orthornn/core/error.hpp"
#include "orthornn/text/word_tokenizer.hpp"
#include "text/sentence_columns.hpp"

namespace orthornn {
namespace {

using Tokens = std::vector<std::int32_t>;

}  // namespace

Translator::Translator(EncoderDecoder<float>& model, const TranslationTask& task)
    : task_(task), generator_(model), batch_(model.device()) {
  const EncoderDecoderOptions& options = model.options();
  if (options.source_symbols == task.source_tokenizer().size() &&
      options.target_symbols == task.target_tokenizer().size())
    return;
  throw ValueError(fmt::format("the model has {} and {} symbols, and the task's tokenizers have {} and {}",
                               options.source_symbols, options.target_symbols, task.source_tokenizer().size(),
                               task.target_tokenizer().size()));
}

std::vector<std::int32_t> Translator::encode(std::string_view sentence) const {
  Tokens tokens = task_.source_tokenizer().encode(sentence);
  if (std::ssize(tokens) > TranslationOptions::most_tokens) {
    throw ValueError(fmt::format("a sentence of {} tokens; expected at most {}", tokens.size(),
                                 TranslationOptions::most_tokens));
  }
  return tokens;
}

void Translator::check(std::string_view sentence) const { encode(sentence); }

std::vector<std::vector<Hypothesis>> Translator::search(std::span<const Tokens* const> sentences,
                                                        const BeamSearchOptions& options) {
  const AnswerSymbols symbols{
      .begin = token_ids::begin, .end = token_ids::end, .excluded = {token_ids::padding, token_ids::begin}};
  write_with_ends(sentences, token_ids::padding, batch_.integers(batch_names::source),
                  batch_.integers(batch_names::source_lengths), staging_);
  return beam_search<float>(generator_, batch_, symbols, options);
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> sentences,
                                                            const BeamSearchOptions& options, Index batch,
                                                            const std::function<void()>& before_batch) {
  if (batch < 1)
    throw ValueError(fmt::format("translating {} sentences at a time; expected at least 1", batch));
  // 1. In the order of their lengths, so that little is padding.
  std::vector<Tokens> tokens;
  std::vector<std::size_t> order;
  std::vector<std::vector<Translation>> translations(sentences.size());
  for (const std::string& sentence : sentences) {
    tokens.push_back(encode(sentence));
    if (tokens.back().empty()) {
      translations[tokens.size() - 1].emplace_back();
    } else {
      order.push_back(tokens.size() - 1);
    }
  }
  std::ranges::stable_sort(order, std::ranges::less(), [&](std::size_t i) { return tokens[i].size(); });
  // 2. A batch at a time.
  for (std::size_t first = 0; first < order.size(); first += static_cast<std::size_t>(batch)) {
    if (before_batch) before_batch();
    const std::size_t count = std::min(static_cast<std::size_t>(batch), order.size() - first);
    std::vector<const Tokens*> together;
    for (std::size_t i = 0; i < count; ++i) together.push_back(&tokens[order[first + i]]);
    auto found = search(together, options);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t number = order[first + i];
      for (const Hypothesis& hypothesis : found[i])
        translations[number].push_back(translation(sentences[number], hypothesis));
    }
  }
  return translations;
}

AlignedTranslation Translator::align(std::string_view sentence, const BeamSearchOptions& options) {
  const Tokens tokens = encode(sentence);
  if (tokens.empty()) return {};
  const Tokens* const alone = &tokens;
  Hypothesis best = std::move(search(std::span(&alone, 1), options).front().front());
  AlignedTranslation result{.translation = translation(sentence, best), .target = words_of(sentence, best)};
  const Tokenizer& source = task_.source_tokenizer();
  if (const auto* words = dynamic_cast<const WordTokenizer*>(&source)) {
    result.source = words->words(sentence);
  } else {
    for (const std::int32_t token : tokens) result.source.emplace_back(source.text_of(token));
  }
  const char* const end = "</s>";
  result.source.emplace_back(end);
  if (best.complete) result.target.emplace_back(end);
  result.attention = std::move(best.attention);
  return result;
}

/// The hypothesis as text.
Translation Translator::translation(std::string_view sentence, const Hypothesis& hypothesis) const {
  Translation result{.log_probability = hypothesis.log_probability,
                     .score = hypothesis.score,
                     .complete = hypothesis.complete};
  const bool copies = dynamic_cast<const WordTokenizer*>(&task_.source_tokenizer()) != nullptr &&
                      std::ranges::count(hypothesis.symbols, token_ids::unknown) > 0;
  result.text = copies ? detokenize(fmt::format("{}", fmt::join(words_of(sentence, hypothesis), " ")))
                       : task_.target_tokenizer().decode(hypothesis.symbols);
  return result;
}

/// The symbols of a hypothesis as text. Where the source has words, an unknown one is copied from it.
std::vector<std::string> Translator::words_of(std::string_view sentence, const Hypothesis& hypothesis) const {
  const auto* source = dynamic_cast<const WordTokenizer*>(&task_.source_tokenizer());
  const std::vector<std::string> words =
      source != nullptr ? source->words(sentence) : std::vector<std::string>();
  std::vector<std::string> answer;
  for (std::size_t t = 0; t < hypothesis.symbols.size(); ++t) {
    if (words.empty() || hypothesis.symbols[t] != token_ids::unknown) {
      answer.emplace_back(task_.target_tokenizer().text_of(hypothesis.symbols[t]));
      continue;
    }
    // The end, which attention may point to, is no word.
    const auto weights = hypothesis.attention[t].begin();
    answer.push_back(
        words[static_cast<std::size_t>(std::max_element(weights, weights + std::ssize(words)) - weights)]);
  }
  return answer;
}

}  // namespace orthornn
