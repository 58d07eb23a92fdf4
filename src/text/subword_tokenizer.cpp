#include "orthornn/text/subword_tokenizer.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "orthornn/core/error.hpp"
#include "text/characters.hpp"
#include "text/piece_list.hpp"

namespace orthornn {
namespace {

// SentencePiece's default. In training it ends the process on words of more than 65,536 characters.
constexpr std::size_t longest_sentence = 4192;

/// SentencePiece writes spaces as U+2581, so this character is a space.
constexpr std::string_view space = "\u2581";

std::string prepared(std::string_view sentence, const NormalizationOptions& normalization) {
  std::string text(sentence);
  for (std::size_t at = text.find(space); at != std::string::npos; at = text.find(space, at))
    text.replace(at, space.size(), " ");
  return clean_text(text, normalization);
}

/// Without one sentence that it may be trained with, SentencePiece ends the process.
bool is_for_training(std::string_view prepared_text) {
  return !prepared_text.empty() && prepared_text.size() <= longest_sentence;
}

/// SentencePiece's own failures, which good sentences and checked models have no reason for.
void check(const sentencepiece::util::Status& status, const char* task) {
  if (!status.ok()) throw ValueError(fmt::format("SentencePiece cannot {}: {}", task, status.ToString()));
}

/// Hands sentences to SentencePiece one by one.
class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}

  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  std::size_t next_ = 0;
};

/// SentencePiece makes a piece of every character, and of the space that it puts before each sentence.
void check_room(const std::vector<std::string>& sentences, Index vocabulary) {
  std::set<std::string_view> distinct{" "};
  for (const std::string& sentence : sentences) {
    for (const Character& character : characters(sentence)) distinct.insert(character.bytes);
  }
  const Index least = std::ssize(distinct) + token_ids::first_of_text;
  if (vocabulary < least) {
    throw ValueError(fmt::format(
        "a vocabulary of {} has no room for the {} characters of these sentences; expected at least {}",
        vocabulary, distinct.size(), least));
  }
}

PieceList train(const SentencePieces& options, const NormalizationOptions& normalization,
                std::span<const std::string_view> sentences) {
  std::vector<std::string> clean;
  clean.reserve(sentences.size());
  for (const std::string_view sentence : sentences) {
    std::string text = prepared(sentence, normalization);
    if (is_for_training(text)) clean.push_back(std::move(text));
  }
  if (clean.empty()) {
    throw ValueError(
        fmt::format("SentencePiece cannot be trained on {} sentences; expected at least one of 1 to {} bytes",
                    sentences.size(), longest_sentence));
  }
  check_room(clean, options.vocabulary);
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", name_of(options.model)},
      {"vocab_size", std::to_string(options.vocabulary)},
      {"hard_vocab_limit", "false"},  // small texts have fewer pieces
      {"character_coverage", "1"},
      {"normalization_rule_name", "identity"},
      {"max_sentence_length", std::to_string(longest_sentence)},
      {"input_sentence_size", "0"},  // all of them: no random sample
      {"shuffle_input_sentence", "false"},
      {"num_threads", "1"},
      {"pad_id", std::to_string(token_ids::padding)},
      {"unk_id", std::to_string(token_ids::unknown)},
      {"bos_id", std::to_string(token_ids::begin)},
      {"eos_id", std::to_string(token_ids::end)},
      {"minloglevel", "3"}};  // what is wrong is in the status
  Sentences iterator(clean);
  std::string model;
  check(sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model), "find pieces");
  return read_pieces(model);
}

/// The pieces, if the options allow them.
PieceList allowed(PieceList list, const SentencePieces& options) {
  if (list.model != options.model) {
    throw ValueError(fmt::format("the SentencePiece model is of kind {}; expected {}", name_of(list.model),
                                 name_of(options.model)));
  }
  const Index size = static_cast<Index>(list.pieces.size()) + token_ids::first_of_text;
  if (size > options.vocabulary) {
    throw ValueError(
        fmt::format("the SentencePiece model has {} pieces; expected {} at most", size, options.vocabulary));
  }
  return list;
}

}  // namespace

struct SubwordTokenizer::Impl {
  explicit Impl(const PieceList& list) : model(model_of(list)) {
    check(processor.LoadFromSerializedProto(model), "load the model");
  }

  std::string model;
  sentencepiece::SentencePieceProcessor processor;
};

SubwordTokenizer::SubwordTokenizer(const SentencePieces& options, const NormalizationOptions& normalization,
                                   std::span<const std::string_view> sentences)
    : Tokenizer(options, normalization),
      impl_(std::make_unique<Impl>(train(options, normalization, sentences))) {}

SubwordTokenizer::SubwordTokenizer(const SentencePieces& options, const NormalizationOptions& normalization,
                                   std::string_view content)
    : Tokenizer(options, normalization),
      impl_(std::make_unique<Impl>(allowed(read_pieces(content), options))) {}

SubwordTokenizer::~SubwordTokenizer() = default;

Index SubwordTokenizer::size() const { return impl_->processor.GetPieceSize(); }

std::vector<std::int32_t> SubwordTokenizer::encode(std::string_view sentence) const {
  std::vector<std::int32_t> tokens;
  check(impl_->processor.Encode(prepared(sentence, normalization()), &tokens), "encode a sentence");
  return tokens;
}

std::string SubwordTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string sentence;
  check(impl_->processor.Decode(tokens_of_text(tokens), &sentence), "decode a sentence");
  // <unk> brings spaces of its own.
  return clean_text(sentence, {.lower_case = false});
}

std::string_view SubwordTokenizer::text_of(std::int32_t token) const {
  check_token(token);
  return impl_->processor.IdToPiece(token);
}

std::string SubwordTokenizer::content() const { return impl_->model; }

}  // namespace orthornn
