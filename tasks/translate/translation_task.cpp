#include "orthornn/tasks/translation_task.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/text/split.hpp"
#include "tasks/batch_size.hpp"

namespace orthornn {
namespace {

constexpr const char* source_part = "source_tokenizer";
constexpr const char* target_part = "target_tokenizer";
constexpr const char* data_part = "data";

/// Sentence pairs of www.manythings.org/anki's English and Spanish, of 2018.
constexpr Index usual_pairs = 118'964;

TokenizerOptions tokenizer_options(const TranslationOptions& options) {
  const auto with_size = [&](auto tokens) {
    if (options.vocabulary > 0) tokens.vocabulary = options.vocabulary;
    return TokenizerOptions(tokens);
  };
  return options.tokenizer == TokenizerKind::word ? with_size(WordTokens{}) : with_size(SentencePieces{});
}

/// Throws ValueError where there is no part of that name.
const std::string& bytes_of(const std::vector<TaskPart>& parts, const char* name) {
  const auto part = std::ranges::find(parts, name, &TaskPart::name);
  if (part == parts.end()) throw ValueError(fmt::format("task translate: there is no part '{}'", name));
  return part->bytes;
}

/// Of pairs that are tokens.
template <class Encoded>
std::vector<PairLength> lengths_of(const Encoded& pairs) {
  std::vector<PairLength> lengths;
  for (std::size_t i = 0; i < pairs.source.size(); ++i)
    lengths.push_back({std::ssize(pairs.source[i]), std::ssize(pairs.target[i])});
  return lengths;
}

/// Of pairs in the order that the seed gave them: "118964 pairs, CRC-32 1a2b3c4d".
std::string checksum_of(const std::vector<SentencePair>& pairs) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (const SentencePair& pair : pairs) {
    for (const std::string* side : {&pair.source, &pair.target}) {
      // With the 0 at the end, so that the border of two sentences counts.
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(side->c_str()), side->size() + 1);
    }
  }
  return fmt::format("{} pairs, CRC-32 {:08x}", pairs.size(), crc);
}

/// x [T, B] <- column b of row t is at(b, t).
template <class At>
void fill_columns(Tensor<std::int32_t>& x, Index length, Index batch, const At& at) {
  Tensor<std::int32_t> host(Shape{length, batch});
  for (Index t = 0; t < length; ++t) {
    for (Index b = 0; b < batch; ++b) host(t, b) = at(b, t);
  }
  x.reserve(host.shape());
  copy<std::int32_t>(host, x);
}

}  // namespace

TranslationTask::TranslationTask(const TranslationOptions& options) : options_(options) {
  check_fields("task translate", options);
  check_batch_size("translate", options.longest + 1, options.batch);
  if (options.vocabulary != 0)
    std::visit([](const auto& tokens) { check_fields("task translate", tokens); },
               tokenizer_options(options));
  if (!options.parts.empty()) read_parts(options.parts);
}

void TranslationTask::read_parts(const std::vector<TaskPart>& parts) {
  for (const auto& [name, tokenizer] :
       {std::pair{source_part, &source_tokenizer_}, {target_part, &target_tokenizer_}}) {
    const std::string& bytes = bytes_of(parts, name);
    try {
      *tokenizer = load_tokenizer(bytes);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("task translate: {}: {}", name, error.what()));
    }
    const NormalizationOptions found = (*tokenizer)->normalization(), expected = normalization();
    if ((*tokenizer)->kind() != name_of(options_.tokenizer) || found.lower_case != expected.lower_case ||
        found.strip_accents != expected.strip_accents) {
      throw ValueError(fmt::format(
          "task translate: the {} is of other tokens, case or accents than the task's options", name));
    }
  }
  const std::string& data = bytes_of(parts, data_part);
  constexpr std::size_t longest_checksum = 100;
  if (data.empty() || data.size() > longest_checksum ||
      !std::ranges::all_of(data, [](char c) { return c >= ' ' && c <= '~'; })) {
    throw ValueError(
        fmt::format("task translate: the part '{}' has {} bytes; expected 1 to {} of printable ASCII",
                    data_part, data.size(), longest_checksum));
  }
  checksum_ = data;
}

TaskDefaults TranslationTask::defaults() const {
  // Of the usual text, for the file need not have been read: nine of ten sentences train.
  const Index pairs = options_.pairs > 0 ? options_.pairs : usual_pairs;
  const Index batches = std::max<Index>(pairs / 10 * 9 / options_.batch, 1);
  return {.hidden_size = 512,
          .batch = 128,
          .steps = 10 * batches,
          .evaluation_steps = batches,
          .optimizer = "adam",
          .learning_rate = 1e-3,
          .learning_rate_orthogonal = 1e-4};
}

NormalizationOptions TranslationTask::normalization() const {
  return {.lower_case = !options_.keep_case, .strip_accents = options_.strip_accents};
}

Index TranslationTask::length() const {
  return longest_sentence_ > 0 ? longest_sentence_ + 1 : options_.longest + 1;
}

void TranslationTask::load() const {
  if (!training_.pairs.empty()) return;
  if (options_.data.empty()) {
    throw FileError(
        "task translate needs its data, but no folder was given; name a folder with the pairs, or fetch them "
        "with tools/fetch-data tatoeba");
  }
  const bool reverse = options_.direction == Direction::second_to_first;
  ParallelText text = read_parallel_text(options_.data, {.reverse = reverse});
  // 1. A sample of all pairs.
  std::vector<SentencePair> pairs = shuffled(std::move(text.pairs), options_.seed);
  if (options_.pairs > 0 && std::cmp_less(options_.pairs, pairs.size()))
    pairs.resize(static_cast<std::size_t>(options_.pairs));
  std::string checksum = checksum_of(pairs);
  if (!checksum_.empty() && checksum_ != checksum) {
    throw FileError(fmt::format(
        "{} is another text than the one that the model was trained with ({} there, {} here), so its "
        "test sentences may be among those of the training; name the text of the training",
        options_.data.string(), checksum_, checksum));
  }
  // 2. No sentence of the first column is on two sides.
  SplitPairs split =
      split_pairs(std::move(pairs), reverse ? Column::target : Column::source, SplitShares{}, options_.seed);
  // 3. What is known of the tokens is known from training sentences alone.
  std::shared_ptr<const Tokenizer> source = source_tokenizer_, target = target_tokenizer_;
  if (!source) {
    for (const auto& [tokenizer, column] : {std::pair{&source, Column::source}, {&target, Column::target}}) {
      *tokenizer =
          train_tokenizer(tokenizer_options(options_), normalization(), sentences_of(split.training, column));
    }
  }
  Index too_long = 0;
  const auto encoded = [&](std::vector<SentencePair>& of) {
    return encode(std::move(of), *source, *target, too_long);
  };
  Encoded training = encoded(split.training), validation = encoded(split.validation),
          test = encoded(split.test);
  for (const auto& [what, set] :
       {std::pair{"training", &training}, {"validation", &validation}, {"test", &test}}) {
    if (!set->pairs.empty()) continue;
    throw ValueError(fmt::format("task translate: {} has no pair for {} with at most {} tokens on each side",
                                 options_.data.string(), what, options_.longest));
  }
  // 4. Batches, and what a guesser would lose.
  std::vector<double> counts(static_cast<std::size_t>(target->size()), 0);
  double all = 0;
  for (const auto& tokens : training.target) {
    for (const std::int32_t token : tokens) counts[static_cast<std::size_t>(token)] += 1;
    counts[static_cast<std::size_t>(token_ids::end)] += 1;
    all += static_cast<double>(tokens.size() + 1);
  }
  buckets_.emplace(lengths_of(training), options_.batch, options_.seed);
  for (Encoded* set : {&validation, &test})
    set->batches = LengthBuckets(lengths_of(*set), options_.batch, options_.seed).epoch(0);
  entropy_ = 0;
  for (const double count : counts) {
    if (count > 0) entropy_ -= count / all * std::log(count / all);
  }
  for (const Encoded* set : {&training, &validation, &test}) {
    for (const auto* side : {&set->source, &set->target}) {
      for (const auto& tokens : *side) longest_sentence_ = std::max(longest_sentence_, std::ssize(tokens));
    }
  }
  // Only what is complete is kept: a text that was mended may be read again.
  source_tokenizer_ = std::move(source);
  target_tokenizer_ = std::move(target);
  checksum_ = std::move(checksum);
  skipped_ = std::move(text.skipped);
  too_long_ = too_long;
  training_ = std::move(training);
  validation_ = std::move(validation);
  test_ = std::move(test);
}

TranslationTask::Encoded TranslationTask::encode(std::vector<SentencePair> pairs,
                                                 const Tokenizer& source_tokenizer,
                                                 const Tokenizer& target_tokenizer, Index& too_long) const {
  Encoded encoded;
  for (SentencePair& pair : pairs) {
    std::vector<std::int32_t> source = source_tokenizer.encode(pair.source),
                              target = target_tokenizer.encode(pair.target);
    if (std::max(std::ssize(source), std::ssize(target)) > options_.longest) {
      ++too_long;
      continue;
    }
    encoded.source.push_back(std::move(source));
    encoded.target.push_back(std::move(target));
    encoded.pairs.push_back(std::move(pair));
  }
  return encoded;
}

std::optional<Index> TranslationTask::batches_per_epoch() const {
  load();
  return buckets_->batches();
}

double TranslationTask::baseline_loss() const {
  load();
  return entropy_;
}

const TranslationTask::Encoded& TranslationTask::held_out(HeldOut set) const {
  load();
  return set == HeldOut::validation ? validation_ : test_;
}

Index TranslationTask::evaluation_batches(HeldOut set) const { return std::ssize(held_out(set).batches); }

void TranslationTask::training_batch(std::uint64_t step, Batch& batch) const {
  const auto batches = static_cast<std::uint64_t>(*batches_per_epoch());
  if (epoch_ != step / batches) {
    training_.batches = buckets_->epoch(step / batches);
    epoch_ = step / batches;
  }
  fill(training_, training_.batches[step % batches], batch);
}

void TranslationTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index batches = evaluation_batches(set);
  if (number < 0 || number >= batches) {
    throw ValueError(
        fmt::format("task translate: evaluation batch {} was asked for; there are {}", number, batches));
  }
  const Encoded& pairs = held_out(set);
  fill(pairs, pairs.batches[static_cast<std::size_t>(number)], batch);
}

void TranslationTask::fill(const Encoded& pairs, std::span<const std::int32_t> numbers, Batch& batch) const {
  const Index count = std::ssize(numbers);
  const auto column = [&](const auto& side, Index b) -> const std::vector<std::int32_t>& {
    return side[static_cast<std::size_t>(numbers[static_cast<std::size_t>(b)])];
  };
  Tensor<std::int32_t> lengths[2] = {Tensor<std::int32_t>(Shape{count}), Tensor<std::int32_t>(Shape{count})};
  Index longest[2] = {0, 0};
  for (const int side : {0, 1}) {
    for (Index b = 0; b < count; ++b) {
      const Index length = std::ssize(column(side == 0 ? pairs.source : pairs.target, b)) + 1;
      lengths[side](b) = static_cast<std::int32_t>(length);
      longest[side] = std::max(longest[side], length);
    }
  }
  /// The tokens, then the end, then padding.
  const auto with_end = [&](const auto& side, std::int32_t padding) {
    return [&, padding](Index b, Index t) {
      const std::vector<std::int32_t>& tokens = column(side, b);
      if (t < std::ssize(tokens)) return tokens[static_cast<std::size_t>(t)];
      return t == std::ssize(tokens) ? token_ids::end : padding;
    };
  };
  const auto answers = with_end(pairs.target, -1);
  fill_columns(batch.integers(batch_names::source), longest[0], count,
               with_end(pairs.source, token_ids::padding));
  fill_columns(batch.integers(batch_names::classes), longest[1], count, answers);
  fill_columns(batch.integers(batch_names::target), longest[1], count, [&](Index b, Index t) {
    return t == 0 ? token_ids::begin : std::max(answers(b, t - 1), token_ids::padding);
  });
  for (const auto& [name, from] :
       {std::pair{batch_names::source_lengths, &lengths[0]}, {batch_names::target_lengths, &lengths[1]}}) {
    batch.integers(name).reserve(from->shape());
    copy<std::int32_t>(*from, batch.integers(name));
  }
}

std::string TranslationTask::config() const { return json_object(options_, "task").dump(); }

const Tokenizer& TranslationTask::source_tokenizer() const {
  if (!source_tokenizer_) load();
  return *source_tokenizer_;
}

const Tokenizer& TranslationTask::target_tokenizer() const {
  if (!target_tokenizer_) load();
  return *target_tokenizer_;
}

std::vector<TaskPart> TranslationTask::parts() const {
  if (checksum_.empty()) load();
  return {{source_part, source_tokenizer().serialize()},
          {target_part, target_tokenizer().serialize()},
          {data_part, checksum_}};
}

std::span<const SentencePair> TranslationTask::held_out_pairs(HeldOut set) const {
  return held_out(set).pairs;
}

std::string TranslationTask::left_out() const {
  load();
  std::string text = describe(skipped_);
  if (too_long_ > 0) {
    text += fmt::format("{}{} pairs were left out: more than {} tokens on a side", text.empty() ? "" : "; ",
                        too_long_, options_.longest);
  }
  return text;
}

}  // namespace orthornn
