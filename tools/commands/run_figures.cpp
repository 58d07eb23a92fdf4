#include "commands/run_figures.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>

#include "commands/answers.hpp"
#include "commands/any_model.hpp"
#include "commands/clip_pictures.hpp"
#include "commands/delta_figures.hpp"
#include "commands/model_figures.hpp"
#include "commands/program.hpp"
#include "commands/progress.hpp"
#include "commands/saved_training.hpp"
#include "commands/translation.hpp"
#include "orthornn/linalg/eigenvalue_angles.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

/// Sentences of a file, one a line, perhaps with a tab and a translation.
std::vector<SentencePair> read_sentences(const fs::path& file) {
  constexpr std::size_t most = 20, longest = Task::longest_sample_line;
  check_regular(file);
  std::istringstream text(read_whole_file(file));
  std::vector<SentencePair> sentences;
  for (std::string line; std::getline(text, line);) {
    if (line.size() > longest || sentences.size() == most) {
      throw FileError(
          fmt::format("'{}' has more than {} lines, or a line of more than {} bytes; expected a few "
                      "sentences, of which a page shows the attention",
                      file.string(), most, longest));
    }
    const std::size_t end = std::min(line.find_first_of("\t\r"), line.size());
    const std::string rest = line.substr(end < line.size() && line[end] == '\t' ? end + 1 : line.size());
    sentences.push_back({line.substr(0, end), rest.substr(0, rest.find_first_of("\t\r"))});
  }
  return sentences;
}

/// Translates the sentences and adds what a map can show of them.
void add_attention(TrainingRun& run, const std::vector<SentencePair>& sentences) {
  constexpr std::size_t most_tokens = 60;
  const LoadedTranslator translator(SavedTraining(run.folder).best_or_last().string(), {});
  for (const SentencePair& sentence : sentences) {
    add_or_note(run, fmt::format("no attention is drawn for '{}'", sentence.source.substr(0, 40)), [&] {
      AlignedTranslation found = translator->align(sentence.source);
      if (found.source.empty()) return;
      if (std::max(found.source.size(), found.target.size()) > most_tokens) {
        throw ValueError(fmt::format("{} tokens and {} of its translation; a map shows at most {}",
                                     found.source.size(), found.target.size(), most_tokens));
      }
      run.attention.push_back({sentence, std::move(found)});
    });
  }
}

/// How much longer sequences are than those of the training, where a page shows what is true of them.
constexpr Index times_trained = 4;

/// Their steps, for which the model has positions.
Index longer_length(const Task& task, const AnyModelOptions& model) {
  const Index longer = times_trained * task.length();
  return std::min(longer, fewest_positions(layers_of(model)).value_or(longer));
}

/// Follows the DeltaProduct layers of the best model along a test sequence, a longer one where the task has
/// such.
void add_delta_products(TrainingRun& run, const Task& task, const fs::path& file, const DataFiles& data) {
  ModelFileInfo info;
  if (!has_delta_products(read_model_info(file).model)) return;
  const auto model = load_model(file, {}, &info);
  const Index longer = std::min(longer_length(task, info.model), most_delta_steps(*model));
  const bool has_lengths = longer > 0 && task.with_length(longer, 1) != nullptr;
  DeltaFigures figures = delta_figures(*model, info, has_lengths ? longer : 0, data);
  run.trained_length = task.length();
  run.delta_products = std::move(figures.layers);
  run.rank_steps = std::move(figures.rank_steps);
}

/// Evaluates the best model on test sequences of four times the length, where the task has such with answers
/// at their steps.
void add_step_accuracies(TrainingRun& run, const Task& task, const fs::path& file) {
  constexpr Index most_steps = Index{1} << 18;
  if (!task.data().every_step || task.data().classes == 0) return;
  const Index length = longer_length(task, read_model_info(file).model);
  const std::unique_ptr<Task> longer =
      task.with_length(length, std::clamp<Index>(most_steps / length, 1, task.batch_size()));
  if (longer == nullptr) return;
  const auto model = load_model(file);
  std::vector<Index> right(static_cast<std::size_t>(length)), counted(right);
  evaluate(*model, *longer, HeldOut::test, [&](const Batch& batch, const BatchLoss&) {
    const ConstTensorView<std::int32_t> classes = batch.integers(batch_names::classes);
    for (Index t = 0; t < length; ++t) {
      for (Index b = 0; b < classes.shape()[1]; ++b) {
        if (classes(t, b) < 0) continue;
        const ConstTensorView<float> y = model->outputs()[t][b];
        ++counted[t];
        right[t] += std::ranges::max_element(y) - y.begin() == classes(t, b) ? 1 : 0;
      }
    }
  });
  for (Index t = 0; t < length; ++t) {
    if (counted[t] == 0) continue;
    run.step_accuracies.push_back({t + 1, static_cast<double>(right[t]) / static_cast<double>(counted[t])});
  }
  run.trained_length = task.length();
}

/// Adds the answers of the best model on test data, for a task that wants them shown.
void add_answers(TrainingRun& run, const Task& task, const fs::path& file) {
  if (!task.reports_answers()) return;
  task.load();
  std::vector<std::string> names = task.class_names();
  const SequenceData data = task.data();
  // The classes of a next symbol are the symbols.
  for (Index c = 0; task.text() != nullptr && data.every_step && c < data.classes; ++c)
    names.push_back(task.text()->text_of(std::vector{static_cast<std::int32_t>(c)}));
  run.answers = answers_on_test_data(file, task, names);
}

/// Adds test clips and what the best model predicts of them.
void add_clips(TrainingRun& run, const Task& task, const fs::path& file) {
  if (predicts_frames(task.data())) run.pictures = clip_pictures(file, task);
}

/// Adds the angles of each Q of the best model that is orthogonal. Those of large ones would take long.
void add_eigenvalue_angles(TrainingRun& run, const fs::path& file) {
  constexpr Index largest = 1024;
  ModelFileInfo info = read_model_info(file);
  if (!std::holds_alternative<ModelOptions>(info.model)) return;
  const auto model = load_model(file);
  const std::vector<const OrthogonalLayer<float>*> layers = orthogonal_layers(*model);
  Progress progress("finding eigenvalues", std::ssize(layers), "layers");
  for (const OrthogonalLayer<float>* layer : layers) {
    const Index size = layer->transition().hidden_size();
    if (size > largest)
      throw ValueError(fmt::format("a layer has N = {}; expected at most {}", size, largest));
    const Tensor<float> q = layer->transition().materialize().copy(Device::cpu());
    std::vector<double> angles = eigenvalue_angles<float>(q.view());
    for (double& angle : angles) angle = std::abs(angle) * 180 / std::numbers::pi;
    run.eigenvalue_angles.push_back(std::move(angles));
    progress.advance();
  }
}

}  // namespace

void add_sequence_figures(TrainingRun& run, const Task& task, const DataFiles& data) {
  const fs::path model = SavedTraining(run.folder).best_or_last();
  add_or_note(run, "no answers on test data are drawn", [&] { add_answers(run, task, model); });
  add_or_note(run, "no frames are drawn", [&] { add_clips(run, task, model); });
  add_or_note(run, "no accuracy over the steps is drawn", [&] { add_step_accuracies(run, task, model); });
  add_or_note(run, "no angles of eigenvalues are drawn", [&] { add_eigenvalue_angles(run, model); });
  add_or_note(run, "no step sizes of DeltaProduct layers are drawn",
              [&] { add_delta_products(run, task, model, data); });
}

void add_translation_figures(TrainingRun& run, const std::string& sentences) {
  const fs::path file = sentences.empty() ? run.folder / sample_file : fs::path(sentences);
  if (!run.parameters) {
    run.notes.push_back(
        "no attention is drawn: model.h5 is missing; expected the one that the training saved");
  } else if (sentences.empty() && !is_present(file)) {
    run.notes.push_back(fmt::format(
        "no attention is drawn, as there is no {}; give sentences by --sentences FILE", sample_file));
  } else {
    add_attention(run, read_sentences(file));
  }
}

}  // namespace orthornn::program
