#include "commands/answers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "commands/progress.hpp"
#include "core/host_copy.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn::program {
namespace {

/// Multiplications of all batches: some seconds on one core.
constexpr double most_answer_work = 4e10;
/// Classes with a row of their own.
constexpr std::size_t most_classes = 30;
/// Of numbers of each step: sequences, their steps and their columns.
constexpr Index most_sequences = 3, most_sequence_steps = 500, most_columns = 3;
/// Of numbers of a sequence: sequences.
constexpr Index most_single_numbers = 500;

/// How many targets of a class (first) had an answer (second).
using ClassPairs = std::map<std::pair<std::int32_t, std::int32_t>, Index>;

void count_answers(ClassPairs& pairs, ConstTensorView<float> outputs, ConstTensorView<std::int32_t> classes) {
  const Index width = outputs.shape()[-1];
  for (Index row = 0; row < classes.size(); ++row) {
    const std::int32_t target = classes.data()[row];
    if (target < 0) continue;
    const float* of_classes = outputs.data() + row * width;
    const auto answer = std::max_element(of_classes, of_classes + width) - of_classes;
    ++pairs[{target, static_cast<std::int32_t>(answer)}];
  }
}

/// The classes of a matrix, all or those that are targets most often.
std::vector<std::int32_t> classes_with_rows(const ClassPairs& pairs, Index classes) {
  std::map<std::int32_t, Index> targets;
  for (const auto& [pair, count] : pairs) targets[pair.first] += count;
  if (std::cmp_less_equal(classes, most_classes)) {
    for (std::int32_t i = 0; i < classes; ++i) targets[i];
  }
  std::vector<std::pair<std::int32_t, Index>> order(targets.begin(), targets.end());
  std::ranges::stable_sort(order, std::ranges::greater(), &std::pair<std::int32_t, Index>::second);
  order.resize(std::min(order.size(), most_classes));
  std::vector<std::int32_t> kept;
  for (const auto& [number, count] : order) kept.push_back(number);
  std::ranges::sort(kept);
  return kept;
}

void add_matrix(Answers& answers, const ClassPairs& pairs, Index classes,
                const std::vector<std::string>& names) {
  const std::vector<std::int32_t> kept = classes_with_rows(pairs, classes);
  for (const std::int32_t number : kept) {
    const auto i = static_cast<std::size_t>(number);
    answers.classes.push_back(i < names.size() ? names[i] : std::to_string(number));
  }
  if (std::cmp_less(kept.size(), classes)) answers.classes.emplace_back("others");
  const auto place = [&](std::int32_t number) {
    const auto found = std::ranges::lower_bound(kept, number);
    return found != kept.end() && *found == number ? static_cast<std::size_t>(found - kept.begin())
                                                   : kept.size();
  };
  answers.counts.assign(answers.classes.size(), std::vector<Index>(answers.classes.size()));
  for (const auto& [pair, count] : pairs) answers.counts[place(pair.first)][place(pair.second)] += count;
}

/// In the units of the data.
Tensor<float> restored(const Task& task, ConstTensorView<float> numbers) {
  Tensor<float> copied = host_copy(numbers);
  task.restore_outputs(copied.view());
  return copied;
}

/// Numbers of each step, [T, B, C].
void add_sequences(Answers& answers, const Tensor<float>& targets, const Tensor<float>& outputs,
                   ConstTensorView<std::int32_t> lengths) {
  const Shape& shape = targets.shape();
  for (Index b = 0; b < std::min(shape[1], most_sequences); ++b) {
    const Index live = lengths.empty() ? shape[0] : static_cast<Index>(lengths(b));
    std::vector<AnsweredNumbers>& columns = answers.sequences.emplace_back();
    for (Index c = 0; c < std::min(shape[2], most_columns); ++c) {
      AnsweredNumbers& column = columns.emplace_back();
      for (Index t = 0; t < std::min(live, most_sequence_steps); ++t) {
        column.targets.push_back(targets(t, b, c));
        column.outputs.push_back(outputs(t, b, c));
      }
    }
  }
}

/// Numbers of a sequence, [B, C].
void add_single_numbers(Answers& answers, const Tensor<float>& targets, const Tensor<float>& outputs) {
  const Index columns = std::min(targets.shape()[1], most_columns);
  answers.columns.resize(static_cast<std::size_t>(columns));
  for (Index b = 0; b < targets.shape()[0]; ++b) {
    for (Index c = 0; c < columns; ++c) {
      AnsweredNumbers& column = answers.columns[static_cast<std::size_t>(c)];
      if (std::isnan(targets(b, c))) continue;  // it is missing
      // Other columns may have room, where they have missing numbers.
      if (std::ssize(column.targets) == most_single_numbers) continue;
      column.targets.push_back(targets(b, c));
      column.outputs.push_back(outputs(b, c));
    }
  }
}

/// Batches that are looked at: those that are drawn, within the work that there may be.
Index batches_of(const SequenceModel<float>& model, const Task& task) {
  const SequenceData data = task.data();
  const Index drawn = data.classes > 0  ? task.evaluation_batches(HeldOut::test)
                      : data.every_step ? 1
                                        : (most_single_numbers - 1) / task.batch_size() + 1;
  const double work = static_cast<double>(model.parameters().count()) *
                      static_cast<double>(task.batch_size()) * static_cast<double>(task.length());
  const auto possible = static_cast<Index>(std::max(most_answer_work / work, 1.0));
  return std::min({drawn, possible, task.evaluation_batches(HeldOut::test)});
}

}  // namespace

Answers answers_on_test_data(const std::filesystem::path& model_file, const Task& task,
                             const std::vector<std::string>& class_names) {
  const auto model = load_model(model_file);
  task.load();
  const SequenceData data = task.data();
  Answers answers{.batches = batches_of(*model, task), .all_batches = task.evaluation_batches(HeldOut::test)};
  Progress progress("testing " + model_file.string(), answers.batches, "batches");
  Batch batch;
  ClassPairs pairs;
  for (Index i = 0; i < answers.batches; ++i) {
    task.evaluation_batch(HeldOut::test, i, batch);
    const TensorView<const float> outputs = model->forward(batch);
    if (data.classes > 0) {
      count_answers(pairs, outputs, batch.integers(batch_names::classes));
    } else {
      const Tensor<float> found = restored(task, outputs),
                          targets = restored(task, batch.reals(batch_names::values));
      if (data.every_step) add_sequences(answers, targets, found, batch.integers(batch_names::lengths));
      if (!data.every_step) add_single_numbers(answers, targets, found);
    }
    progress.advance();
  }
  if (data.classes > 0) add_matrix(answers, pairs, data.classes, class_names);
  return answers;
}

}  // namespace orthornn::program
