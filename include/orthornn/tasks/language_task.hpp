#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class LanguageTask;

/// Question that is asked about a sequence.
enum class Language {
  /// Whether the number of symbols b is odd, in a sequence of symbols a and b.
  parity,
  /// Whether the number of places where neighbours differ is odd, in a sequence of symbols a and b. This is
  /// whether the first and the last symbol differ.
  even_pairs,
  /// Value modulo 5 of digits 0 to 4 with + - * between them, products first.
  modular,
  /// Value modulo 5 of an expression as in `modular` with brackets around each operation, brackets around
  /// digits, and minus signs before digits.
  modular_brackets,
  /// Last place after steps 0, 1, -1 on a circle of 5 places.
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

/// Options of a LanguageTask.
struct LanguageOptions {
  using Made = LanguageTask;
  static constexpr const char* name = "language";  ///< Name in files and on the command line.
  /// Question that is asked.
  Language language = Language::parity;
  /// Steps of the shortest sequence of the training and validation data, >= 1.
  Index shortest = 1;
  /// Steps of the longest sequence of the training and validation data, >= `shortest`.
  Index length = 40;
  /// Steps of the longest sequence of the test data, >= `length`; the shortest has `length`.
  Index test_length = 256;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of all sequences.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    using Self = LanguageOptions;
    visit("language", &Self::language, domain::any, "what is asked about a sequence");
    visit("shortest", &Self::shortest, domain::count, "steps of the shortest training sequence");
    visit("length", &Self::length, domain::count, "steps of the longest training sequence");
    visit("test_length", &Self::test_length, domain::count,
          "steps of the longest test sequence; the shortest has --length");
  }
};

/// A task of the languages of "Neural networks and the Chomsky hierarchy" (Deletang et al., ICLR 2023). A
/// recurrent network with few states can decide them, except `modular_brackets`. A sequence is read, and its
/// one answer is the target after its last step. Each sequence has a length of its own, uniform in its range;
/// expressions of `modular` have odd lengths, so one step is taken off an even one.
///
/// Symbols [T, B] have lengths [B]; beyond a length they are 0. A sequence depends on the seed, its set and
/// its number alone. Each of the two held-out sets has 1000 sequences. Batches are made on the host.
class LanguageTask final : public Task {
 public:
  /// Number of sequences in each held-out set.
  static constexpr Index held_out_sequences = 1000;
  /// Modulus of the arithmetic, and number of places on the circle.
  static constexpr std::int32_t modulus = 5;
  /// Symbols of arithmetic, after the digits.
  enum Sign : std::int32_t {
    plus = modulus,  ///< Sign of addition.
    minus,           ///< Sign of subtraction, and of a negative digit.
    times,           ///< Sign of multiplication.
    open,            ///< Opening bracket.
    close            ///< Closing bracket.
  };

  /// Makes the task. Throws ValueError for an option outside its domain, for lengths that fall from
  /// `shortest` to `length` to `test_length`, and for 2^31 steps or more in a batch.
  explicit LanguageTask(const LanguageOptions& options = {});

  std::string name() const override { return LanguageOptions::name; }
  /// Question that is asked.
  Language language() const { return options_.language; }
  SequenceData data() const override;
  /// Word problem of Z2 for parity and of Z5 for cycle, whose product is asked for at the end; no value for
  /// other languages.
  std::optional<GroupWords> group_words() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  /// Steps of the longest sequence of the test data.
  Index length() const override { return options_.test_length; }
  /// Entropy, in nats, of the answers of the validation data. Sequences of more than 2^14 symbols count as
  /// such of 2^14.
  double baseline_loss() const override;
  /// Whether 99 of 100 answers are right.
  bool solved(const Evaluation& evaluation) const override {
    return evaluation.metric("accuracy").value_or(0) >= 0.99;
  }

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  std::vector<Metric> metrics() const override { return {Metric::accuracy()}; }
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  /// A task whose sequences all have this length.
  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;

 private:
  /// Sequences first to first + count - 1, with lengths from `shortest` to `longest`.
  void fill(RandomPurpose purpose, std::uint64_t first, Index count, Index shortest, Index longest,
            Batch& batch) const;

  LanguageOptions options_;
  // Memory of the host for batches of a GPU, kept so that the next batch takes no memory.
  mutable Batch staging_;
};

}  // namespace orthornn
