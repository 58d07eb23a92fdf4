#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class RecallTask;

/// Options of a RecallTask.
struct RecallOptions {
  using Made = RecallTask;
  static constexpr const char* name = "recall";  ///< Name in files and on the command line.
  /// Keys D of a sequence, each with a value, >= 1.
  Index keys = 8;
  /// Number V of symbols, even, 4 to 2^20: 0 is blank, keys are 1 to V/2 - 1, values V/2 to V - 1.
  Index symbols = 128;
  /// Steps T of a sequence, even, at least 4 D.
  Index length = 64;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of all sequences.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    using Self = RecallOptions;
    visit("keys", &Self::keys, domain::count, "keys of a sequence, each with a value");
    visit("symbols", &Self::symbols, Domain{.low = 4, .high = 1 << 20},
          "symbols that there are: a blank, keys and values");
    visit("length", &Self::length, Domain{.low = 4}, "steps of a sequence");
  }
};

/// Multi-query associative recall (Arora et al., "Zoology: measuring and improving recall in efficient
/// language models", ICLR 2024). A sequence begins with D different keys, each before its value; the values
/// differ too. Then every key comes once more, at step 2 D + 2 g, where g is drawn without repetition with a
/// probability in proportion to (g + 1)^(-0.99), and its value is the target of that step. Other steps are
/// blank and have no target.
///
/// A sequence depends on the seed, its set and its number alone. Each of the two held-out sets has 1000
/// sequences. Batches are made on the host.
class RecallTask final : public Task {
 public:
  /// Number of sequences in each held-out set.
  static constexpr Index held_out_sequences = 1000;

  /// Makes the task. Throws ValueError for an option outside its domain, odd numbers of symbols or steps,
  /// fewer steps than 4 D, fewer symbols for keys than D, and 2^31 steps or more in a batch.
  explicit RecallTask(const RecallOptions& options = {});

  std::string name() const override { return RecallOptions::name; }
  SequenceData data() const override {
    return {.symbols = options_.symbols, .classes = options_.symbols, .every_step = true};
  }
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.length; }
  /// Loss of a guesser for whom all values are equally likely, ln (V/2).
  double baseline_loss() const override;
  /// Whether 99 of 100 values are right.
  bool solved(const Evaluation& evaluation) const override {
    return evaluation.metric("accuracy").value_or(0) >= 0.99;
  }

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  std::vector<Metric> metrics() const override { return {Metric::accuracy(), Metric::sequence_accuracy()}; }
  /// Counts the values that are recalled, and the sequences with right values alone.
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;

 private:
  void fill(RandomPurpose purpose, std::uint64_t first, Index count, Batch& batch) const;

  RecallOptions options_;
  /// Probabilities of the places g, made with the first batch, so that making a long task takes no time.
  mutable std::vector<double> weights_;
  // Memory of the host for batches of a GPU, kept so that the next batch takes no memory.
  mutable Batch staging_;
};

}  // namespace orthornn
