#include "orthornn/tasks/translation_task.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/text/split.hpp"
#include "tasks/batches.hpp"
#include "tasks/data_part.hpp"
#include "text/sentence_columns.hpp"

namespace orthornn {
namespace {

constexpr const char* source_part = "source_tokenizer";
constexpr const char* target_part = "target_tokenizer";

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

std::vector<TaskPart> parts_of(const std::string& source, const std::string& target,
                               const std::string& data) {
  return {{source_part, source}, {target_part, target}, {data_part::name, data}};
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

/// Throws FileError unless the checksums of the training's text and of this one are the same.
void check_same_text(const std::filesystem::path& data, const std::string& there, const std::string& here) {
  if (there == here) return;
  throw FileError(fmt::format(
      "{} is another text than the one that the model was trained with ({} there, {} here), so its "
      "test sentences may be among those of the training; name the text of the training",
      data.string(), there, here));
}

bool is_reversed(const TranslationOptions& options) {
  return options.direction == Direction::second_to_first;
}

ParallelText text_of(const TranslationOptions& options) {
  const std::filesystem::path& data = options.data;
  if (data.empty()) {
    throw FileError(
        "task translate needs its data, but no folder was given; name a folder with the pairs, or fetch them "
        "with tools/fetch-data tatoeba");
  }
  std::error_code other;  // what else may be wrong with it is said where it is read
  if (!std::filesystem::exists(data, other) && !other) {
    throw FileError(fmt::format(
        "task translate: its data '{}' do not exist; fetch them with tools/fetch-data tatoeba, or "
        "name a text of sentence pairs, its zip archive, or its folder (--data)",
        data.string()));
  }
  return read_parallel_text(data, {.reverse = is_reversed(options)});
}

/// Entropy in nats of a token of sentences and their ends, of so many tokens that are known.
double entropy_of(const std::vector<std::vector<std::int32_t>>& sentences, Index known) {
  std::vector<double> counts(static_cast<std::size_t>(known), 0);
  double all = 0, entropy = 0;
  for (const auto& tokens : sentences) {
    for (const std::int32_t token : tokens) counts[static_cast<std::size_t>(token)] += 1;
    counts[static_cast<std::size_t>(token_ids::end)] += 1;
    all += static_cast<double>(tokens.size() + 1);
  }
  for (const double count : counts) {
    if (count > 0) entropy -= count / all * std::log(count / all);
  }
  return entropy;
}

}  // namespace

TranslationTask::TranslationTask(const TranslationOptions& options) : options_(options) {
  check_fields("task translate", options);
  check_batch_size("translate", options.longest + 1, options.batch);
  if (options.vocabulary != 0)
    std::visit([](const auto& tokens) { check_fields("task translate", tokens); },
               tokenizer_options(options));
  if (!options.parts.empty()) read_parts();
}

/// Moves the parts of the options to where they are kept.
void TranslationTask::read_parts() {
  const std::vector<TaskPart> parts = std::exchange(options_.parts, {});
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
  const std::string data = data_part::checksum_in("translate", parts);
  parts_ = parts_of(bytes_of(parts, source_part), bytes_of(parts, target_part), data);
}

SequenceData TranslationTask::data() const {
  return {.symbols = source_tokenizer_ ? source_tokenizer_->size() : 0,
          .classes = target_tokenizer_ ? target_tokenizer_->size() : 0,
          .every_step = true,
          .pairs = true};
}

NormalizationOptions TranslationTask::normalization() const {
  return {.lower_case = !options_.keep_case, .strip_accents = options_.strip_accents};
}

Index TranslationTask::length() const {
  return longest_sentence_ > 0 ? longest_sentence_ + 1 : options_.longest + 1;
}

void TranslationTask::load() const {
  if (!training_.pairs.empty()) return;
  ParallelText text = text_of(options_);
  // 1. A sample of all pairs.
  std::vector<SentencePair> pairs = shuffled(std::move(text.pairs), options_.seed);
  const auto wanted = static_cast<std::size_t>(options_.pairs), all_pairs = pairs.size();
  if (wanted > 0 && wanted < all_pairs) pairs.resize(wanted);
  const std::string checksum = checksum_of(pairs);
  if (!parts_.empty()) check_same_text(options_.data, bytes_of(parts_, data_part::name), checksum);
  // 2. No sentence of the first column is on two sides.
  const auto refuse = [&, used = pairs.size()](const std::string& why) {
    throw ValueError(fmt::format("task translate: {} of {} pairs in {} are used (--pairs), too few: {}", used,
                                 all_pairs, options_.data.string(), why));
  };
  SplitPairs split;
  try {
    split = split_pairs(std::move(pairs), is_reversed(options_) ? Column::target : Column::source,
                        SplitShares{}, options_.seed);
  } catch (const ValueError& error) {
    refuse(error.what());
  }
  // 3. What is known of the tokens is known from training sentences alone.
  const auto trained = [&](Column column) {
    return train_tokenizer(tokenizer_options(options_), normalization(),
                           sentences_of(split.training, column));
  };
  std::shared_ptr<const Tokenizer> source = source_tokenizer_ ? source_tokenizer_ : trained(Column::source),
                                   target = target_tokenizer_ ? target_tokenizer_ : trained(Column::target);
  Index too_long = 0;
  const auto encoded = [&](const char* what, std::vector<SentencePair>& of) {
    Encoded set = encode(std::move(of), *source, *target, too_long);
    if (set.pairs.empty()) {
      refuse(fmt::format("there is none for {} with at most {} tokens on each side (--longest)", what,
                         options_.longest));
    }
    return set;
  };
  Encoded training = encoded("training", split.training),
          validation = encoded("validation", split.validation), test = encoded("test", split.test);
  // 4. Batches, and what a guesser would lose.
  buckets_.emplace(lengths_of(training), options_.batch, options_.seed);
  for (Encoded* set : {&validation, &test})
    LengthBuckets(lengths_of(*set), options_.batch, options_.seed).epoch(0, set->batches);
  entropy_ = entropy_of(training.target, target->size());
  for (const Encoded* set : {&training, &validation, &test}) {
    for (const PairLength& pair : lengths_of(*set))
      longest_sentence_ = std::max({longest_sentence_, pair.source, pair.target});
  }
  // Only what is complete is kept: a text that was mended may be read again.
  source_tokenizer_ = std::move(source);
  target_tokenizer_ = std::move(target);
  if (parts_.empty())
    parts_ = parts_of(source_tokenizer_->serialize(), target_tokenizer_->serialize(), checksum);
  skipped_ = std::move(text.skipped);
  all_pairs_ = static_cast<Index>(all_pairs);
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

Index TranslationTask::evaluation_batches(HeldOut set) const { return held_out(set).batches.count(); }

void TranslationTask::training_batch(std::uint64_t step, Batch& batch) const {
  const auto batches = static_cast<std::uint64_t>(*batches_per_epoch());
  if (epoch_ != step / batches) {
    buckets_->epoch(step / batches, training_.batches);
    epoch_ = step / batches;
  }
  fill(training_, static_cast<Index>(step % batches), batch);
}

void TranslationTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index batches = evaluation_batches(set);
  if (number < 0 || number >= batches) {
    throw ValueError(
        fmt::format("task translate: evaluation batch {} was asked for; there are {}", number, batches));
  }
  fill(held_out(set), number, batch);
}

void TranslationTask::fill(const Encoded& pairs, Index number, Batch& batch) const {
  sources_.clear();
  targets_.clear();
  for (const std::int32_t pair : pairs.batches[number]) {
    sources_.push_back(&pairs.source[static_cast<std::size_t>(pair)]);
    targets_.push_back(&pairs.target[static_cast<std::size_t>(pair)]);
  }
  write_with_ends(sources_, token_ids::padding, batch.integers(batch_names::source),
                  batch.integers(batch_names::source_lengths), staging_);
  write_with_ends(targets_, -1, batch.integers(batch_names::classes),
                  batch.integers(batch_names::target_lengths), staging_);
  write_after_begin(targets_, token_ids::padding, batch.integers(batch_names::target), staging_);
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
  if (parts_.empty()) load();
  return parts_;
}

std::span<const SentencePair> TranslationTask::held_out_pairs(HeldOut set) const {
  return held_out(set).pairs;
}

std::string TranslationTask::text_sample() const {
  std::vector<SentencePair> short_pairs;
  for (const SentencePair& pair : held_out_pairs(HeldOut::test)) {
    if (std::ssize(pair.source) + 1 + std::ssize(pair.target) <= longest_sample_line)
      short_pairs.push_back(pair);
  }
  std::string text;
  const std::size_t sample = std::min<std::size_t>(short_pairs.size(), 5);
  for (std::size_t i = 0; i < sample; ++i) {
    const SentencePair& pair = short_pairs[i * short_pairs.size() / sample];
    text += fmt::format("{}\t{}\n", pair.source, pair.target);
  }
  return text;
}

std::string TranslationTask::left_out() const {
  load();
  std::vector<std::string> texts;
  if (!skipped_.empty()) texts.push_back(describe(skipped_));
  if (options_.pairs > all_pairs_)
    texts.push_back(
        fmt::format("--pairs {}: there are {} pairs, and all are used", options_.pairs, all_pairs_));
  if (too_long_ > 0) {
    texts.push_back(
        fmt::format("{} pairs were left out: more than {} tokens on a side", too_long_, options_.longest));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace orthornn
