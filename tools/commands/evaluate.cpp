#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <list>
#include <utility>
#include <vector>

#include "commands/evaluation.hpp"
#include "commands/field_options.hpp"
#include "commands/machine.hpp"
#include "commands/program.hpp"
#include "commands/task_data.hpp"
#include "commands/translation.hpp"
#include "core/checked_json.hpp"

namespace orthornn::program {
namespace {

const char* words_of(Loss loss) {
  switch (loss) {
    case Loss::softmax_cross_entropy:
      return "cross-entropy";
    case Loss::mean_squared_error:
      return "mean squared error";
    case Loss::absolute_and_squared_error:
      return "L1 + L2 error";
  }
  return "";
}

struct EvaluateSettings {
  EvaluationSource source;
  bool json = false;
  bool verbose = false;
  MachineOptions machine;
  /// Of the model file.
  std::string task;
  std::list<OwnedOption> owned;
};

std::string value_text(const MetricValue& found) {
  return found.metric.is_share ? fmt::format("{:.2f} %", 100 * found.value)
                               : fmt::format("{:.6g}", found.value);
}

/// A column is as wide as its title, which tasks outside of orthornn choose.
int width(const Metric& metric) { return std::max(static_cast<int>(metric.title.size()), 12); }

void print_ahead(const ModelEvaluation& result) {
  if (result.ahead.empty()) return;
  fmt::print("{:>12}", "frame ahead");
  for (const MetricValue& found : result.evaluation.metrics)
    fmt::print(" {:>{}}", found.metric.title, width(found.metric));
  fmt::print("\n");
  for (std::size_t m = 0; m < result.ahead.size(); ++m) {
    fmt::print("{:>12}", m + 1);
    for (const MetricValue& found : result.ahead[m])
      fmt::print(" {:>{}}", value_text(found), width(found.metric));
    fmt::print("\n");
  }
}

void print_lengths(const ModelEvaluation& result) {
  if (result.lengths.empty()) return;
  fmt::print("{:>10}", "length");
  for (const MetricValue& found : result.evaluation.metrics)
    fmt::print(" {:>{}}", found.metric.title, width(found.metric));
  fmt::print(" {:>12} {:>12}\n", "loss", "guesser");
  for (const EvaluationAtLength& at : result.lengths) {
    fmt::print("{:>10}", at.length);
    for (const MetricValue& found : at.evaluation.metrics)
      fmt::print(" {:>{}}", value_text(found), width(found.metric));
    fmt::print(" {:>12.6g} {:>12.6g}\n", at.evaluation.loss, at.baseline);
  }
}

/// The first of equal ones stays.
void remove_repeated(std::vector<Index>& lengths) {
  const std::vector<Index> all = std::exchange(lengths, {});
  for (const Index length : all) {
    if (std::ranges::find(lengths, length) == lengths.end()) lengths.push_back(length);
  }
}

int run_evaluation(EvaluateSettings& settings) {
  remove_repeated(settings.source.lengths);
  const Execution execution = settings.machine.apply();
  const EvaluationSource& source = settings.source;
  const ModelEvaluation result = evaluate_file(source, execution, [&](const std::string& task) {
    settings.task = task;
    for (const OwnedOption& own : settings.owned) {
      if (own.option->count() > 0) own.check();
    }
  });
  if (settings.json) {
    fmt::print("{}\n", json_text(json_of(result, source, execution)));
    return success;
  }
  if (settings.verbose) print_recurrences(result.cells, execution, result.length, result.batch);
  fmt::print("{} on test data of the task {}, after {} training steps:\n", printable(source.model),
             result.task, result.steps);
  fmt::print("  {:20} {:.6g}; a guesser has {:.6g}\n", words_of(result.loss), result.evaluation.loss,
             result.baseline);
  for (const MetricValue& found : result.evaluation.metrics)
    fmt::print("  {:20} {}\n", found.metric.title, value_text(found));
  if (result.translations) print_metrics(*result.translations, source.search);
  if (result.orthogonality_error) {
    fmt::print("  {:20} {:.1e}, the largest entry of |I - A'A| for Q as {} applies it\n",
               "orthogonality error", *result.orthogonality_error, name_of(execution.precision));
  }
  fmt::print("The task counts as {}.\n", result.solved ? "solved" : "not solved");
  print_lengths(result);
  print_ahead(result);
  return success;
}

}  // namespace

void add_evaluate(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("eval", "Metrics of a model on test data");
  command->option_defaults()->always_capture_default();
  const auto settings = std::make_shared<EvaluateSettings>();
  command->add_option("model", settings->source.model, "Model file, model.h5 of a run")->required();
  const auto belongs = [&](CLI::Option* option, std::vector<std::string> tasks) {
    const EvaluateSettings* own = settings.get();
    add_owned(
        settings->owned, option, "the task", [own] { return std::vector{own->task}; }, std::move(tasks));
  };
  belongs(command
              ->add_option("--data", settings->source.files.data,
                           "where the data are; left out: where the config.toml beside the model says, or "
                           "data/mnist or data/tatoeba")
              ->default_str(""),
          tasks_with_data());
  for (const auto& [flag, place] : {std::pair{"--validation", &settings->source.files.validation},
                                    {"--test", &settings->source.files.test}}) {
    belongs(command
                ->add_option(flag, *place,
                             "file of own sequences that the training had; left out: where the config.toml "
                             "beside the model says")
                ->default_str(""),
            {SequencesOptions::name});
  }
  constexpr Index longest = (Index{1} << 31) - 1;
  command
      ->add_option("--lengths", settings->source.lengths,
                   "Evaluate on test sequences of these lengths too, with commas between")
      ->delimiter(',')
      ->transform(whole_number_in(1, longest))
      ->default_str("");
  add_value(
      *command, "--ahead", settings->source.ahead,
      "Also measure so many frames at the end of each test clip, which the model predicts from those before "
      "and its own predictions",
      domain::count);
  command->add_flag("--json", settings->json, "One JSON object instead of a text");
  command->add_flag("--verbose", settings->verbose, "Print how the recurrence of each cell is computed");
  add_fields(*command, "Translation", settings->source.search);
  add_value(*command, "--sample", settings->source.sample, "Sentences that are shown with their translations",
            domain::not_negative)
      ->group("Translation");
  for (const char* flag : {"--beam", "--length-penalty", "--sample"})
    belongs(command->get_option(flag), translation_tasks());
  settings->machine.add_to(*command);
  command->callback([&chosen, settings] { chosen = [settings] { return run_evaluation(*settings); }; });
}

}  // namespace orthornn::program
