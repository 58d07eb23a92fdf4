#include "orthornn/text/word_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orthornn/core/error.hpp"
#include "text/characters.hpp"
#include "text/token_texts.hpp"

namespace orthornn {
namespace {

std::size_t words_at_most(const WordTokens& options) {
  return static_cast<std::size_t>(options.vocabulary - token_ids::first_of_text);
}

}  // namespace

WordTokenizer::WordTokenizer(const WordTokens& options, const NormalizationOptions& normalization,
                             std::span<const std::string_view> sentences)
    : Tokenizer(options, normalization) {
  std::unordered_map<std::string, Index> counts;
  std::string word_to_find;  // keeps its memory
  for (const std::string_view sentence : sentences) {
    const std::string text = normalize(sentence, normalization);
    for (const std::string_view word : words_of(text)) {
      if (word.size() > longest_token) continue;
      word_to_find = word;
      ++counts[word_to_find];
    }
  }
  if (counts.empty()) {
    throw ValueError(
        fmt::format("a vocabulary cannot be made of {} sentences without a word; expected one of "
                    "1 to {} bytes at least",
                    sentences.size(), longest_token));
  }
  std::vector<std::pair<Index, const std::string*>> order;
  order.reserve(counts.size());
  for (const auto& [word, count] : counts) order.emplace_back(-count, &word);
  const auto key = [](const auto& entry) { return std::pair(entry.first, std::string_view(*entry.second)); };
  std::ranges::sort(order, {}, key);
  order.resize(std::min(order.size(), words_at_most(options)));
  words_.reserve(order.size());
  for (const auto& [count, word] : order) words_.push_back(*word);
  number_words();
}

WordTokenizer::WordTokenizer(const WordTokens& options, const NormalizationOptions& normalization,
                             std::string_view content)
    : Tokenizer(options, normalization) {
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    if (end == std::string_view::npos) throw ValueError("the last word does not end; it is truncated");
    if (words_.size() == words_at_most(options)) {
      throw ValueError(
          fmt::format("it has more than {} words; expected no more than its vocabulary of {} tokens allows",
                      words_.size(), options.vocabulary));
    }
    const std::string_view word = content.substr(0, end);
    check_token_text(word, words_.size() + special_texts.size());
    words_.emplace_back(word);
    content.remove_prefix(end + 1);
  }
  if (words_.empty()) throw ValueError("it has no words; expected one at least");
  number_words();
}

void WordTokenizer::number_words() {
  tokens_.reserve(words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::size_t token = i + special_texts.size();
    if (!tokens_.emplace(words_[i], static_cast<std::int32_t>(token)).second)
      refuse_repeated_token(words_[i], token);
  }
}

Index WordTokenizer::size() const { return std::ssize(words_) + token_ids::first_of_text; }

std::vector<std::int32_t> WordTokenizer::encode(std::string_view sentence) const {
  const std::string text = normalize(sentence, normalization());
  std::vector<std::int32_t> tokens;
  for (const std::string_view word : words_of(text)) {
    const auto found = tokens_.find(word);
    tokens.push_back(found == tokens_.end() ? token_ids::unknown : found->second);
  }
  return tokens;
}

std::vector<std::string> WordTokenizer::words(std::string_view sentence) const {
  const std::string text = normalize(sentence, normalization());
  const std::vector<std::string_view> words = words_of(text);
  return std::vector<std::string>(words.begin(), words.end());
}

std::string WordTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string words;
  for (const std::int32_t token : tokens_of_text(tokens)) {
    if (!words.empty()) words += ' ';
    words += text_of(token);
  }
  return detokenize(words);
}

std::string_view WordTokenizer::text_of(std::int32_t token) const {
  check_token(token);
  const auto number = static_cast<std::size_t>(token);
  if (number < special_texts.size()) return special_texts[number];
  return words_[number - special_texts.size()];
}

std::string WordTokenizer::content() const {
  std::string lines;
  for (const std::string& word : words_) (lines += word) += '\n';
  return lines;
}

}  // namespace orthornn
