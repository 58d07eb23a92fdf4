#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// How columns of numbers are brought to a common size, by the training data alone.
enum class Normalization {
  standard,  ///< Less the mean, divided by the standard deviation.
  range,     ///< From 0 for the smallest number to 1 for the largest.
  none       ///< As they are.
};
template <>
struct Names<Normalization> {
  using enum Normalization;
  static constexpr Choice<Normalization> list[] = {{"standard", standard}, {"range", range}, {"none", none}};
};

/// What is done with numbers that are missing, which are NaN. Target numbers that are missing do not count
/// with `zero` and with `mask`.
enum class Missing {
  refuse,  ///< They are an error.
  zero,    ///< Inputs are 0 after normalization: the mean of a standard one.
  mask     ///< Inputs are 0, and as many more columns are 1 where an input is missing.
};
template <>
struct Names<Missing> {
  using enum Missing;
  static constexpr Choice<Missing> list[] = {{"refuse", refuse}, {"zero", zero}, {"mask", mask}};
};

/// N sequences in host memory of the caller, and their targets. They are read while the task lives. Sequences
/// have T steps each, or `lengths`, and then their S steps in all follow one another.
struct SequenceView {
  /// Vectors that are read, [N, T, K], or [S, K] with `lengths`; empty where steps are symbols.
  ConstTensorView<float> features = {};
  /// Symbols that are read, from 0 on, [N, T], or [S] with `lengths`; empty where steps are vectors.
  ConstTensorView<std::int32_t> symbols = {};
  /// Steps of each sequence, [N], each 1 or more; empty where all have T.
  ConstTensorView<std::int32_t> lengths = {};
  /// Whether each step has a target; otherwise each sequence has one.
  bool every_step = false;
  /// Target classes, from 0 on, [N], or [N, T] or [S] with `every_step`, where a negative one does not count.
  ConstTensorView<std::int32_t> classes = {};
  /// Target numbers, [N, C], or [N, T, C] or [S, C] with `every_step`.
  ConstTensorView<float> values = {};
  /// Weight of each class in the loss, above 0. Classes after the last one that has a weight weigh 1. Empty:
  /// all weigh 1, or what DataTaskOptions::balanced gives them.
  ConstTensorView<float> class_weights = {};
  /// Number of the group of each sequence, [N]: all sequences of a group are training, validation or test
  /// data. Empty: each sequence is a group.
  ConstTensorView<std::int32_t> groups = {};
  /// Number of sequences that are the validation data: those after the training sequences. 0: groups are
  /// drawn.
  Index validation = 0;
  /// Number of sequences that are the test data: the last ones. 0: groups are drawn.
  Index test = 0;
  /// Number of symbols that there are. 0: one more than the largest symbol of the training data.
  Index symbol_count = 0;
  /// Bytes of a text that each symbol stands for, [symbol_count], by which the bits of a byte are counted;
  /// empty where symbols are no text.
  ConstTensorView<std::int32_t> symbol_bytes = {};
};

/// Options of a DataTask.
struct DataTaskOptions {
  /// Steps that the target of a step lies ahead: it is the input so many steps later, a vector or a symbol.
  /// 0: the sequences have targets.
  Index ahead = 0;
  /// Steps of the pieces into which one long sequence of each part is cut. Batch after batch has the pieces
  /// in their order, numbered by Batch::piece, so that a model carries its states from one to the next. 0:
  /// sequences are whole.
  Index cut = 0;
  /// How input and target numbers are brought to a common size.
  Normalization normalization = Normalization::standard;
  /// What is done with numbers that are missing.
  Missing missing = Missing::refuse;
  /// Whether each class weighs n / (C n_c) in the loss, as "balanced" of scikit-learn: n_c of the n training
  /// targets have class c, and C classes occur. Classes that do not occur weigh 1.
  bool balanced = false;
  /// Share of the groups that are drawn as validation data, above 0.
  double validation_part = 0.1;
  /// Share of the groups that are drawn as test data, above 0.
  double test_part = 0.1;
  /// Sequences B of a batch, >= 1.
  Index batch = 128;
  /// Seed of the split and of the order of the sequences.
  std::uint64_t seed = 1;
};

/// Maps of columns of numbers, x -> (x - shift) / divisor.
struct ColumnMaps {
  std::vector<float> shift;    ///< Subtracted from each column.
  std::vector<float> divisor;  ///< Divides each column, never 0.
  bool operator==(const ColumnMaps&) const = default;
};

/// What a DataTask has learned from its training data before a model does.
struct DataStatistics {
  ColumnMaps features;  ///< Normalization of the inputs; empty where steps are symbols.
  ColumnMaps values;    ///< Normalization of the target numbers; empty where targets are classes.
  Index symbols = 0;    ///< Number of symbols; 0 where steps are vectors.
  Index classes = 0;    ///< Number of classes; 0 where targets are numbers.
  /// Weight of each class in the loss, [classes], above 0; empty where all weigh 1.
  std::vector<float> class_weights = {};
  bool operator==(const DataStatistics&) const = default;
};

/// Sequences of a caller's own, to be learned by any model: a class or numbers for each sequence or step, or
/// the next inputs. Groups of sequences, drawn from the seed, are held out for validation and test.
///
/// Batches have batch_names::features or symbols [T, B, ..], with lengths where sequences differ in theirs,
/// and classes or values, with weights where classes have some or target numbers are missing. The losses of
/// held-out data are weighted as those of training data, and metrics are not. T is the longest of the batch.
/// An epoch has the training sequences in a new order. Sequences of different lengths are batched with those
/// of similar lengths (LengthBuckets); of equal ones the remainder that does not fill a batch is left out.
/// One thread at a time may use the task.
///
/// With `cut`, the sequence of a part is B long stretches, one after the other, which are read side by side:
/// batch after batch has the next `cut` steps of each, and the last of an epoch those that are left. Less
/// than B steps at the end are left out. A held-out sequence has fewer stretches where it is short.
class DataTask : public Task {
 public:
  /// Makes the task and looks at all numbers. Throws ShapeError for shapes that do not fit one another, and
  /// ValueError for options outside their domains, missing or infinite numbers, sequences without a target
  /// that counts, columns of numbers from 2^24 on whose differences float does not keep, negative symbols,
  /// symbols and classes of 2^24 or more, class weights that are not above 0 or not of classes, too few
  /// groups, and for held-out classes or symbols that no training sequence has.
  explicit DataTask(const SequenceView& sequences, const DataTaskOptions& options = {});
  ~DataTask() override;

  std::string name() const override { return "data"; }
  SequenceData data() const override;
  Index batch_size() const override { return options_.batch; }
  std::uint64_t seed() const override { return options_.seed; }
  /// Steps of the longest sequence or piece; 1 before there are data.
  Index length() const override;
  std::optional<Index> batches_per_epoch() const override;
  /// Loss of the best constant: the entropy of the training classes in nats, weighted as they are, or the
  /// variance of the normalized training targets.
  double baseline_loss() const override;
  /// False: what counts as learned only the owner of the data knows.
  bool solved(const Evaluation&) const override { return false; }

  void training_batch(std::uint64_t step, Batch& batch) const override;
  Index evaluation_batches(HeldOut set) const override;
  void evaluation_batch(HeldOut set, Index number, Batch& batch) const override;
  /// For classes: accuracy; and for at most 1000 of them balanced accuracy, the mean of the shares of each
  /// class that are right, and macro F1, the mean of the F1 of each class. For a forecast of symbols:
  /// accuracy, perplexity, bits a symbol, and for texts bits a byte. For numbers, in their own units over all
  /// columns: root mean squared and mean absolute error; and the root mean squared error over the standard
  /// deviation of the training targets.
  std::vector<Metric> metrics() const override;
  Shape counters() const override;
  void count_metrics(ConstTensorView<float> outputs, const Batch& batch,
                     TensorView<double> sums) const override;
  std::vector<double> metric_values(ConstTensorView<double> sums, double mean_loss) const override;
  std::string config() const override;

  /// Features [.., K] of a caller as batches have them: normalized, and with columns for missing ones. Throws
  /// ShapeError for another number of columns, ValueError for numbers that are missing or infinite.
  Tensor<float> own_features(ConstTensorView<float> features) const override;
  /// Overwrites outputs [.., C] that are numbers by such in the units of the targets; leaves others.
  void restore_outputs(TensorView<float> outputs) const override;

  /// What was learned from the training data.
  const DataStatistics& statistics() const;

 protected:
  /// Makes a task without data, which `load` of a derived class gives by `use`.
  explicit DataTask(const DataTaskOptions& options);
  /// The sequences of a SequenceView, whose numbers may lie in a file (tasks/sequences/loaded_sequences.hpp).
  struct Content;
  /// Takes the sequences, which must stay where they are. `known` are the statistics of a model trained
  /// before; null: they are found. `checksum` becomes that of the sequences; if it is not empty, it must be
  /// theirs already; null: none is found. Messages name classes by `class_names`, where there are any. Throws
  /// as the constructor, and FileError.
  void use(const Content& content, const DataStatistics* known, std::string* checksum,
           std::span<const std::string> class_names = {}) const;
  /// Whether `use` was called.
  bool has_data() const;
  /// Sets the statistics of a model trained before, where there are no data yet.
  void use(const DataStatistics& known) const;

 private:
  struct Data;

  /// What is counted in the outputs of a model.
  enum class Counted {
    errors,   ///< Errors of target numbers.
    answers,  ///< For each class: those right, those expected, those given.
    right     ///< How many of how many answers.
  };

  const Data& loaded() const;
  Counted counted() const;
  void count_errors(ConstTensorView<float> outputs, const Batch& batch, TensorView<double> sums) const;

  DataTaskOptions options_;
  // What is there once the data are.
  mutable std::unique_ptr<Data> data_;
  mutable DataStatistics statistics_;
};

}  // namespace orthornn
