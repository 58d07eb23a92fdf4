#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/batch.hpp"
#include "orthornn/orthogonal/transition.hpp"
#include "orthornn/tasks/group_words.hpp"

namespace orthornn {

/// Data that no training step sees.
enum class HeldOut {
  /// For choices made during a training: the learning curve, the best model, whether the task is solved.
  validation,
  /// For the figure at the end alone. What has been chosen by it says too much of itself.
  test,
};

/// What a model made of held-out data: mean loss, and the share of right answers where the task has them.
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy;
  /// Share of the sequences whose answers are all right, where they have several.
  std::optional<double> sequence_accuracy = {};
};

/// Settings with which orthogonal cells are known to learn a task, under a cosine schedule that ends with the
/// last step; the command line starts from them.
struct TaskDefaults {
  Index hidden_size = 128;
  Init init = Init::henaff;
  Index batch = 128;
  Index steps = 1000;
  /// Steps between two evaluations on held-out data.
  Index evaluation_steps = 100;
  /// As `Optimizer::name()` has it.
  std::string optimizer = "rmsprop";
  double learning_rate = 1e-3;
  double learning_rate_orthogonal = 1e-4;
  double clip = 1;
};

/// Bytes that a task was made with and that its `config` does not hold, such as a vocabulary.
struct TaskPart {
  /// Of a dataset in a model file: a to z and _.
  std::string name;
  std::string bytes;
  bool operator==(const TaskPart&) const = default;
};

/// Something to learn, for any model that reads its batches: seeded training batches, held-out batches, a
/// metric and the loss of a guesser.
/// A batch depends on (seed, step) alone, so a resumed training goes on as an uninterrupted one would.
class Task {
 public:
  virtual ~Task() = default;

  /// Printable ASCII, at most 100 bytes. Those of `task_names` are orthornn's own.
  virtual std::string name() const = 0;
  /// May need the task's data, and then throws as `load`.
  virtual TaskDefaults defaults() const = 0;
  virtual Index batch_size() const = 0;
  /// Decides, with the number of the step, every training batch.
  virtual std::uint64_t seed() const = 0;
  /// Steps T of a sequence, of the longest where they differ.
  virtual Index length() const = 0;
  /// Training batches in one pass over the data; nullopt where data never repeat.
  virtual std::optional<Index> batches_per_epoch() const { return std::nullopt; }
  /// Loss of the best answer that does not look at the input.
  virtual double baseline_loss() const = 0;
  /// Whether this result counts as having learned the task.
  virtual bool solved(const Evaluation& evaluation) const = 0;

  /// Reads what the task needs from its data folder, so that a missing file is noticed before a training
  /// starts. Otherwise the first call that needs the data does it. Throws FileError.
  virtual void load() const {}
  /// Fills `batch` on the device where it lies, with the same bits on each; no allocation after the first
  /// batch of a size.
  virtual void training_batch(std::uint64_t step, Batch& batch) const = 0;
  virtual Index evaluation_batches(HeldOut set) const = 0;
  /// Held-out data, number 0 .. evaluation_batches(set) - 1; the last batch may be smaller.
  virtual void evaluation_batch(HeldOut set, Index number, Batch& batch) const = 0;
  /// Whether answers are right or wrong, so that `count_right` counts.
  virtual bool has_accuracy() const = 0;
  /// Adds to `score` [2] how many of a model's outputs ([T, B, C] or [B, C]) are right and how many count,
  /// on the device where all three lie. A task without right answers adds nothing. Throws ShapeError.
  virtual void count_right(ConstTensorView<float> outputs, const Batch& batch,
                           TensorView<double> score) const = 0;
  /// Whether a sequence has several answers, so that `count_right_sequences` counts.
  virtual bool has_sequence_accuracy() const { return false; }
  /// As `count_right`, for sequences: one is right if all its answers are.
  virtual void count_right_sequences(ConstTensorView<float> /*outputs*/, const Batch& /*batch*/,
                                     TensorView<double> /*score*/) const {}

  /// The same task with sequences of so many steps, in batches of `batch`; null for a task without such a
  /// length. Throws ValueError as the task.
  virtual std::unique_ptr<Task> with_length(Index /*length*/, Index /*batch*/) const { return nullptr; }

  /// Everything `make_task` needs to rebuild this task, as the text of a JSON object without data, batch size
  /// or seed.
  virtual std::string config() const = 0;
  /// Order in which the model reads an input of T steps ([T], position -> original index), a permutation;
  /// empty: as it is.
  virtual ConstTensorView<std::int32_t> input_order() const { return {}; }
  /// What a model file keeps beside `config`, so that the model can be used without the task's data. Throws
  /// FileError where it needs data that cannot be read.
  virtual std::vector<TaskPart> parts() const { return {}; }
  /// Whether files of earlier versions have none of these parts. Such a training goes on, and they are not
  /// compared.
  virtual bool may_lack_parts() const { return false; }
};

/// A task whose batches hold one sequence, as `data` says.
class SequenceTask : public Task {
 public:
  virtual SequenceData data() const = 0;
  /// The word problem that the task is, where it is one.
  virtual std::optional<GroupWords> group_words() const { return std::nullopt; }
};

/// Where a task's data and randomness come from; not part of what it is.
struct TaskSource {
  Index batch = 128;
  std::uint64_t seed = 1;
  /// Folder with the task's files, for tasks that have any; needed only when a batch is asked for.
  std::filesystem::path data = {};
  /// `Task::input_order()` as a model file keeps it; copied. Empty: the task draws its own, if it has one.
  ConstTensorView<std::int32_t> input_order = {};
  /// `Task::parts()` as a model file keeps them. Empty: the task makes its own, if it has any.
  std::vector<TaskPart> parts = {};

  static void fields(auto&& visit) {
    visit("batch", &TaskSource::batch, domain::count, "Sequences B of a batch");
    visit("seed", &TaskSource::seed, domain::any, "Decides initial parameters and all data");
  }
};

/// Names that `make_task` knows, sorted.
std::vector<std::string> task_names();

/// Rebuilds a task from `Task::config()`; settings that the text leaves out have their defaults. Throws
/// ValueError for text that is no JSON object, an unknown name or setting, or a setting outside its domain.
std::unique_ptr<Task> make_task(const std::string& config, const TaskSource& source);

}  // namespace orthornn
