#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class LanguageTask;

/// What is asked about a sequence.
enum class Language {
  /// Symbols a, b: is the number of b odd?
  parity,
  /// Symbols a, b: is the number of places where neighbours differ odd? So do the ends differ?
  even_pairs,
  /// Digits 0 .. 4 with + - * between: the value modulo 5, products first.
  modular,
  /// The same with brackets around each operation, around digits, and minus signs before digits.
  modular_brackets,
  /// Steps 0, 1, -1 on a circle of 5 places: where do they end?
  cycle
};
template <>
struct Names<Language> {
  using enum Language;
  static constexpr Choice<Language> list[] = {{"parity", parity},
                                              {"even-pairs", even_pairs},
                                              {"modular", modular},
                                              {"modular-brackets", modular_brackets},
                                              {"cycle", cycle}};
};

struct LanguageOptions {
  using Made = LanguageTask;
  static constexpr const char* name = "language";
  Language language = Language::parity;
  /// Steps of the shortest and the longest sequence to train on and to validate with, >= 1.
  Index shortest = 1;
  Index length = 40;
  /// Steps of the longest sequence of the test data, which begin with `length`.
  Index test_length = 256;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  std::uint64_t seed = 1;

  /// Of `Task::config()`; the others are the TaskSource's.
  static void fields(auto&& visit) {
    using Self = LanguageOptions;
    visit("language", &Self::language, domain::any, "what is asked about a sequence");
    visit("shortest", &Self::shortest, domain::count, "steps of the shortest training sequence");
    visit("length", &Self::length, domain::count, "steps of the longest training sequence");
    visit("test_length", &Self::test_length, domain::count,
          "steps of the longest test sequence; the shortest has --length");
  }
};

/// Languages of "Neural networks and the Chomsky hierarchy" (Deletang et al., ICLR 2023), which a recurrent
/// network with few states can decide, but for `modular_brackets`. A sequence is read, and its one answer is
/// the target after its last step. Lengths are uniform in their range, each sequence with its own; an
/// expression of `modular` has an odd length, so that one step less is taken of an even one.
///
/// Symbols [T, B] with lengths [B]; beyond a length they are 0. A sequence depends on the seed, its set and
/// its number alone. Both held-out sets have 1000 sequences. Batches are made on the host.
class LanguageTask final : public SequenceTask {
 public:
  static constexpr Index held_out_sequences = 1000;
  /// Of the arithmetic and of the circle.
  static constexpr std::int32_t modulus = 5;
  // Symbols of arithmetic, after the digits.
  enum Sign : std::int32_t { plus = modulus, minus, times, open, close };

  /// Throws ValueError for an option outside its domain, for lengths that fall from `shortest` to `length` to
  /// `test_length`, and for 2^31 steps or more in a batch.
  explicit LanguageTask(const LanguageOptions& options = {});

  std::string name() const override { return LanguageOptions::name; }
  Language language() const { return options_.language; }
  SequenceData data() const override;
  /// Parity is the group Z2, and cycle Z5, whose word is asked for at the end.
  std::optional<GroupWords> group_words() const override;
  TaskDefaults defaults() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  /// Of the test data.
  Index length() const override { return options_.test_length; }
  /// Entropy of the answers of the validation data, as if none had more than 2^14 symbols.
  double baseline_loss() const override;
  /// 99 of 100 answers right.
  bool solved(const Evaluation& evaluation) const override { return evaluation.accuracy.value_or(0) >= 0.99; }

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  bool has_accuracy() const override { return true; }
  void count_right(ConstTensorView<float> outputs, const Batch& batch,
                   TensorView<double> score) const override;

  /// All its sequences have this length.
  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;

 private:
  /// Sequences first .. first + count - 1, with lengths from `shortest` to `longest`.
  void fill(RandomPurpose purpose, std::uint64_t first, Index count, Index shortest, Index longest,
            Batch& batch) const;

  LanguageOptions options_;
  // What filling a batch of a GPU writes to, kept so that the next one takes no memory.
  mutable Batch staging_;
};

}  // namespace orthornn
