#pragma once

#include "orthornn/core/random.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

class CopyingTask;

/// Options of a CopyingTask.
struct CopyingOptions {
  using Made = CopyingTask;
  static constexpr const char* name = "copying";  ///< Name in files and on the command line.
  /// Steps T between the end of the string and the marker that asks for it, >= 1.
  Index delay = 1000;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of all sequences.
  std::uint64_t seed = 1;

  /// Fields in `Task::config()`; the others are fields of TaskSource.
  static void fields(auto&& visit) {
    visit("delay", &CopyingOptions::delay, domain::count, "steps to remember over");
  }
};

/// The copying memory problem (Hochreiter and Schmidhuber, "Long short-term memory", 1997, in the form of
/// Arjovsky, Shah and Bengio, "Unitary evolution recurrent neural networks", ICML 2016). A sequence is ten
/// symbols, a wait, and a marker, after which the ten symbols are to be repeated.
///
///     step      0 .. 9        10 .. T + 8   T + 9    T + 10 .. T + 19
///     input     ten symbols   blank         marker   blank
///     target    blank         blank         blank    the ten symbols
class CopyingTask final : public Task {
 public:
  /// Makes the task. Throws ValueError for an option outside its domain and for 2^31 steps or more in a
  /// batch.
  explicit CopyingTask(const CopyingOptions& options = {});

  /// Number of input symbols, 10: data symbols 0 to 7, blank 8 and marker 9.
  Index symbols() const { return marker + 1; }
  /// Number of target classes, 9: data symbols 0 to 7 and blank 8.
  Index classes() const { return blank + 1; }

  std::string name() const override { return CopyingOptions::name; }
  SequenceData data() const override {
    return {.symbols = symbols(), .classes = classes(), .every_step = true};
  }
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  Index length() const override { return options_.delay + 2 * string_length; }
  /// Loss of a guesser for whom blanks are certain and the ten symbols uniform, 10 ln 8 / (T + 20).
  double baseline_loss() const override;
  /// Whether the loss is below a tenth of the baseline, and 99 of 100 symbols are recalled.
  bool solved(const Evaluation& evaluation) const override;

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut) const override { return 10; }
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  std::vector<Metric> metrics() const override { return {Metric::accuracy()}; }
  /// Counts the symbols that are recalled at the last ten steps, where an answer may be any of the nine
  /// classes.
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;

  std::string config() const override;

 private:
  static constexpr Index string_length = 10;
  static constexpr std::int32_t data_symbols = 8;
  static constexpr std::int32_t blank = 8;
  static constexpr std::int32_t marker = 9;

  void fill(RandomPurpose purpose, std::uint64_t index, Batch& batch) const;

  CopyingOptions options_;
};

}  // namespace orthornn
