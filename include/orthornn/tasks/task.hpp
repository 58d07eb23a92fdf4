#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/batch.hpp"
#include "orthornn/core/fields.hpp"
#include "orthornn/tasks/group_words.hpp"
#include "orthornn/tasks/metric.hpp"
#include "orthornn/tasks/sequence_inputs.hpp"
#include "orthornn/tasks/task_text.hpp"

namespace orthornn {

/// Data that no training step sees.
enum class HeldOut {
  /// Data for choices during a training: the learning curve, the best model, whether the task is solved.
  validation,
  /// Data for the figure at the end alone. A choice that was made by them would make that figure too good.
  test,
};

/// Bytes that a task was made with and that its `config` does not hold, such as a vocabulary.
struct TaskPart {
  /// Name of a dataset in a model file, of the characters a to z and _.
  std::string name;
  /// Content of the part.
  std::string bytes;
  bool operator==(const TaskPart&) const = default;
};

/// Something to learn, for any model that reads its batches: seeded training batches, held-out batches, a
/// metric and the loss of a guesser. A batch depends on (seed, step) alone, so a resumed training goes on as
/// an uninterrupted one would.
class Task {
 public:
  /// Bytes of the longest line of a `text_sample`.
  static constexpr Index longest_sample_line = 4096;

  virtual ~Task() = default;

  /// Name of the task, in printable ASCII, at most 100 bytes. `task_names` has those of
  /// orthornn and those that are registered.
  virtual std::string name() const = 0;
  /// Sizes of inputs and targets, by which `model_for` chooses the ends of a model. A task that makes its
  /// vocabulary from files has sizes of 0 until it has the files or the parts of a model file.
  virtual SequenceData data() const = 0;
  /// Sequences B of a batch.
  virtual Index batch_size() const = 0;
  /// Seed that decides, with the number of the step, every training batch.
  virtual std::uint64_t seed() const = 0;
  /// Steps T of a sequence, of the longest one where they differ.
  virtual Index length() const = 0;
  /// Number of training batches in one pass over the data; no value where data never repeat.
  virtual std::optional<Index> batches_per_epoch() const { return std::nullopt; }
  /// Mean loss of the best answer that does not depend on the input.
  virtual double baseline_loss() const = 0;
  /// Whether this result counts as having learned the task.
  virtual bool solved(const Evaluation& evaluation) const = 0;
  /// Word problem that the task is; no value for other tasks.
  virtual std::optional<GroupWords> group_words() const { return std::nullopt; }

  /// Reads the task's files, so that a missing file is noticed before a training starts. Without it, the
  /// first call that needs the data reads them. Throws FileError.
  virtual void load() const {}
  /// Sentences for readers that say what the task left out of its files; empty where there is nothing to say.
  /// It may read the files, and then throws as `load`.
  virtual std::string left_out() const { return ""; }
  /// A few examples of the test data as lines of text, for readers who lack the files; empty for a task whose
  /// data are no text. It may read the files, and then throws as `load`.
  virtual std::string text_sample() const { return ""; }
  /// Fills `batch` with the training batch of a step, 0, 1, .., on the batch's device, with equal bits on
  /// each device. Allocates nothing after the first batch of a size.
  virtual void training_batch(std::uint64_t step, Batch& batch) const = 0;
  /// Number of batches of a held-out set.
  virtual Index evaluation_batches(HeldOut set) const = 0;
  /// Fills `batch` with batch `number`, 0 to evaluation_batches(set) - 1, of a held-out set. The last batch
  /// may be smaller.
  virtual void evaluation_batch(HeldOut set, Index number, Batch& batch) const = 0;
  /// Metrics of the task, beside its loss. None by default. `Trainer` and `evaluate` throw ValueError for
  /// names that `Metric::name` does not allow.
  virtual std::vector<Metric> metrics() const { return {}; }
  /// Shape of the sums that `count_metrics` adds to. By default it is [M, 2]: for each metric the sum of its
  /// values, and how many there are.
  virtual Shape counters() const { return {static_cast<Index>(metrics().size()), 2}; }
  /// Counts the metrics in a model's outputs, [T, B, C] or [B, C]: adds to `sums`, which has the shape
  /// `counters()`. All three lie on one device. Throws ShapeError.
  virtual void count_metrics(ConstTensorView<float> /*outputs*/, const Batch& /*batch*/,
                             TensorView<double> /*sums*/) const {}
  /// Values of the metrics, in their order, from the sums over all batches, in host memory, and from the mean
  /// loss of a target. By default a value is the quotient of two sums, and not a number where nothing was
  /// counted.
  virtual std::vector<double> metric_values(ConstTensorView<double> sums, double mean_loss) const;

  /// Names of the classes of the targets, in the order of their numbers. Empty where classes have no names.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// The text that the symbols stand for, which lives as long as the task. Null for a task without one, and
  /// before the task has its data or parts.
  virtual const TaskText* text() const { return nullptr; }
  /// Sequences of another file or folder, in a form that the task alone knows; no value for what has another
  /// form. Numbers are those before `own_features`. Throws FileError, with file and place, for damaged
  /// files and for sequences that no model of the task reads.
  virtual std::optional<SequenceInputs> own_inputs(const std::filesystem::path& /*place*/) const {
    return std::nullopt;
  }
  /// Whether `report` shows what a model answers on test data beside the targets, as for data of one's own.
  virtual bool reports_answers() const { return false; }
  /// Features [.., K] of a caller, in host memory, as a model of the task reads them: normalized, for a task
  /// that does so. Throws ShapeError and ValueError for features that do not fit.
  virtual Tensor<float> own_features(ConstTensorView<float> features) const;
  /// Overwrites outputs of a model of the task, in host memory, by numbers in the units of the targets.
  virtual void restore_outputs(TensorView<float> /*outputs*/) const {}

  /// Makes this task with sequences of another number of steps, in batches of `batch` sequences; null for a
  /// task without such a length. Throws ValueError as the task's constructor.
  virtual std::unique_ptr<Task> with_length(Index /*length*/, Index /*batch*/) const { return nullptr; }

  /// Settings from which `make_task` makes this task again, as the text of a JSON object, without data, batch
  /// size and seed.
  virtual std::string config() const = 0;
  /// Order in which the model reads an input of T steps: a permutation [T], from position to original index;
  /// empty for the original order.
  virtual ConstTensorView<std::int32_t> input_order() const { return {}; }
  /// Parts that a model file keeps beside `config`, so that the model can be used without the task's data.
  /// Throws FileError where it needs data that cannot be read.
  virtual std::vector<TaskPart> parts() const { return {}; }
  /// Whether files of earlier versions lack these parts. A training of such a file goes on, and parts are not
  /// compared.
  virtual bool may_lack_parts() const { return false; }
};

inline std::vector<double> Task::metric_values(ConstTensorView<double> sums, double /*mean_loss*/) const {
  std::vector<double> values;
  for (Index i = 0; i < sums.shape()[0]; ++i) {
    // The NaN of 0 / 0 would have a sign.
    values.push_back(sums(i, 1) != 0 ? sums(i, 0) / sums(i, 1) : std::numeric_limits<double>::quiet_NaN());
  }
  return values;
}

inline Tensor<float> Task::own_features(ConstTensorView<float> features) const {
  Tensor<float> same;
  same.reserve(features.shape());
  copy<float>(features, same.view());
  return same;
}

/// Data, seed and batch size of a task, which are not part of its `config`.
struct TaskSource {
  /// Sequences B of a batch, 1 or more.
  Index batch = 128;
  /// Seed of all data, and of a model's initial parameters.
  std::uint64_t seed = 1;
  /// Folder with the task's files, or its file, for tasks that have any; needed only when a batch is asked
  /// for.
  std::filesystem::path data = {};
  /// File of validation data, for tasks that take one; empty where they are a part of `data`.
  std::filesystem::path validation_data = {};
  /// File of test data, for tasks that take one; empty where they are a part of `data`.
  std::filesystem::path test_data = {};
  /// Input order as a model file keeps it (Task::input_order); copied. Empty: the task draws its own, if it
  /// has one.
  ConstTensorView<std::int32_t> input_order = {};
  /// Parts as a model file keeps them (Task::parts). Empty: the task makes its own, if it has any.
  std::vector<TaskPart> parts = {};

  static void fields(auto&& visit) {
    visit("batch", &TaskSource::batch, domain::count, "Sequences B of a batch");
    visit("seed", &TaskSource::seed, domain::any, "Decides initial parameters and all data");
  }
};

/// Names of the tasks that `make_task` knows, sorted.
std::vector<std::string> task_names();

/// Makes a task from the text of `Task::config()`; settings that the text leaves out have their defaults.
/// Throws ValueError for text that is no JSON object, an unknown name or setting, or a setting outside its
/// domain.
std::unique_ptr<Task> make_task(const std::string& config, const TaskSource& source);

}  // namespace orthornn
