#include "orthornn/tasks/language_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "tasks/batches.hpp"
#include "tasks/count_right.hpp"
#include "tasks/language/sentence.hpp"

namespace orthornn {

LanguageTask::LanguageTask(const LanguageOptions& options) : options_(options) {
  check_fields("task language", options);
  if (options.shortest > options.length || options.length > options.test_length) {
    throw ValueError(
        fmt::format("task language: shortest is {}, length {} and test_length {}; expected none below the "
                    "one before",
                    options.shortest, options.length, options.test_length));
  }
  check_batch_size("language", options.test_length, options.batch);
}

SequenceData LanguageTask::data() const {
  return {.symbols = symbols_of(options_.language), .classes = answers_of(options_.language)};
}

std::optional<GroupWords> LanguageTask::group_words() const {
  if (options_.language == Language::parity) return GroupWords{FiniteGroup("Z2"), {0, 1}};
  if (options_.language == Language::cycle) return GroupWords{FiniteGroup("Z5"), {0, 1, modulus - 1}};
  return std::nullopt;
}

double LanguageTask::baseline_loss() const {
  constexpr Index longest = 1 << 14;
  std::vector<double> counts(static_cast<std::size_t>(answers_of(options_.language)));
  std::vector<std::int32_t> sentence;
  for (Index number = 0; number < held_out_sequences; ++number) {
    RandomStream random(options_.seed, RandomPurpose::validation, static_cast<std::uint64_t>(number));
    const Index length = draw_length(options_.language, options_.shortest, options_.length, random);
    const std::int32_t answer =
        draw_sentence(options_.language, std::min(length, longest - 1), random, sentence);
    counts[static_cast<std::size_t>(answer)] += 1.0 / static_cast<double>(held_out_sequences);
  }
  double entropy = 0;
  for (const double p : counts) entropy -= p > 0 ? p * std::log(p) : 0;
  return entropy;
}

void LanguageTask::training_batch(std::uint64_t step, Batch& batch) const {
  fill(RandomPurpose::training, step * static_cast<std::uint64_t>(options_.batch), options_.batch,
       options_.shortest, options_.length, batch);
}

Index LanguageTask::evaluation_batches(HeldOut) const {
  return (held_out_sequences + options_.batch - 1) / options_.batch;
}

void LanguageTask::evaluation_batch(HeldOut set, Index number, Batch& batch) const {
  const Index first = number * options_.batch;
  const Index count = std::min(options_.batch, held_out_sequences - first);
  const bool test = set == HeldOut::test;
  fill(held_out_stream(set), static_cast<std::uint64_t>(first), count,
       test ? options_.length : options_.shortest, test ? options_.test_length : options_.length, batch);
}

void LanguageTask::fill(RandomPurpose purpose, std::uint64_t first, Index count, Index shortest,
                        Index longest, Batch& batch) const {
  make_on_host(batch, staging_, [&](Batch& host) {
    Tensor<std::int32_t>& symbols = host.integers(batch_names::symbols);
    Tensor<std::int32_t>& lengths = host.integers(batch_names::lengths);
    Tensor<std::int32_t>& classes = host.integers(batch_names::classes);
    symbols.resize({longest, count});
    lengths.reserve({count});
    classes.reserve({count});
    thread_local std::vector<std::int32_t> sentence;  // keeps its memory
    for (Index b = 0; b < count; ++b) {
      RandomStream random(options_.seed, purpose, first + static_cast<std::uint64_t>(b));
      const Index length = draw_length(options_.language, shortest, longest, random);
      classes(b) = draw_sentence(options_.language, length, random, sentence);
      lengths(b) = static_cast<std::int32_t>(length);
      for (Index t = 0; t < length; ++t) symbols(t, b) = sentence[static_cast<std::size_t>(t)];
    }
  });
}

void LanguageTask::count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                                 TensorView<double> sums) const {
  const ConstTensorView<std::int32_t> answers = batch.integers(batch_names::classes);
  check_shape("outputs of task language", outputs.shape(), {answers.size(), data().classes});
  count_right(outputs, answers, sums[0]);
}

std::unique_ptr<Task> LanguageTask::with_length(Index length, Index batch) const {
  LanguageOptions options = options_;
  options.shortest = options.length = options.test_length = length;
  options.batch = batch;
  return std::make_unique<LanguageTask>(options);
}

std::string LanguageTask::config() const { return json_object(options_, "task").dump(); }

}  // namespace orthornn
