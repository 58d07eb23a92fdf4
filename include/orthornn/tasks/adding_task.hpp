#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class AddingTask;

/// Options of an AddingTask.
struct AddingOptions {
  using Made = AddingTask;
  static constexpr const char* name = "adding";  ///< Name in files and on the command line.
  /// Steps T of a sequence, >= 2.
  Index length = 200;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of all sequences.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    visit("length", &AddingOptions::length, Domain{.low = 2}, "steps of a sequence");
  }
};

/// The adding problem (Hochreiter and Schmidhuber, "Long short-term memory", 1997, in the form of Arjovsky,
/// Shah and Bengio, "Unitary evolution recurrent neural networks", ICML 2016). The features [T, B, 2] are a
/// value uniform in [0, 1), and a mark that is 1 at one step of the first half and one step of the second
/// half, and 0 elsewhere. The target [B, 1] is the sum of the two marked values.
class AddingTask final : public Task {
 public:
  /// Makes the task. Throws ValueError for an option outside its domain and for 2^31 steps or more in a
  /// batch.
  explicit AddingTask(const AddingOptions& options = {});

  std::string name() const override { return AddingOptions::name; }
  SequenceData data() const override { return {.features = 2, .values = 1}; }
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.length; }
  /// Mean squared error of always answering 1, which is 1/6, the variance of the sum of two uniform numbers.
  double baseline_loss() const override { return 1.0 / 6; }
  /// Whether the mean squared error is below 0.01. A model that knows only one of the two numbers has 1/12.
  bool solved(const Evaluation& evaluation) const override { return evaluation.loss < 0.01; }

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut) const override { return 10; }
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;

  std::unique_ptr<Task> with_length(Index length, Index batch) const override;
  std::string config() const override;

 private:
  void fill(RandomPurpose purpose, std::uint64_t index, Batch& batch) const;

  AddingOptions options_;
};

}  // namespace orthornn
