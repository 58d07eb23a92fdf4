// The options of the command line. The order in which they are added is that of the help and of config.toml.

#include <fmt/format.h>

#include <initializer_list>
#include <tuple>

#include "commands/task_data.hpp"
#include "commands/train_settings.hpp"
#include "commands/translation.hpp"

namespace orthornn::program {
namespace {

std::vector<std::string> init_names() {
  std::vector<std::string> names = names_of<Init>();
  names.emplace_back(exact_init);
  return names;
}

}  // namespace

void TrainSettings::add_task_options(CLI::App& command) {
  command.add_option("task", task.name, one_of(task_names()))->check(CLI::IsMember(task_names()));

  const char* g = task_group;
  add_fields(command, g, task, "the task", owned_);
  add_owned(owned_, command.get_option("--generators"), "--alphabet",
            [this] { return std::vector{name_of(std::get<WordsOptions>(task.all).alphabet)}; },
            {name_of(Alphabet::random)});
  add_owned(
      owned_,
      command
          .add_option(
              "--data", files.data,
              "folder with the four IDX files, zip, text or folder with the sentence pairs, or file of "
              "own sequences (.h5, .npz, .csv, .txt); left out: data/mnist or data/tatoeba")
          ->default_str("")
          ->group(g),
      "the task", [this] { return std::vector{task.name}; }, tasks_with_data());
  for (const auto& [flag, place, held_out] :
       {std::tuple{"--validation", &files.validation, "validation"}, {"--test", &files.test, "test"}}) {
    add_owned(
        owned_,
        command
            .add_option(
                flag, *place,
                fmt::format("file of own sequences that are {} data; left out: a part of --data", held_out))
            ->default_str("")
            ->group(g),
        "the task", [this] { return std::vector{task.name}; }, {SequencesOptions::name});
  }
}

void TrainSettings::add_cell_options(CLI::App& command) {
  const char* g = model_group;
  command
      .add_option("--cell", transition.name,
                  fmt::format("Recurrent layer: {}; free is the unconstrained matrix", one_of(cell_names())))
      ->group(g)
      ->check(CLI::IsMember(cell_names()));
  add_fields(command, g, cell);
  add_value(command, "--layers", layers, "Cells, one on the other", Domain{.low = 1, .high = 64})->group(g);
  const auto parts = [this] { return names_of_parts(); };
  add_fields(command, g, transition, "--cell", owned_, parts);
  command
      .add_option(
          "--init", init,
          "Initial transition: henaff, cayley, haar or normal; left out: the task's default. "
          "deltaproduct: exact, weights that solve a task of a group without training, for the tasks words "
          "and language (parity, cycle)")
      ->group(g)
      ->check(CLI::IsMember(init_names()))
      ->default_str("");
  std::vector<std::string> owners = names_of<TransitionOptions>();
  for (const char* flag : {"--activation", "--input-matrix"})
    add_owned(owned_, command.get_option(flag), "--cell", parts, owners);
  owners.emplace_back(DeltaProductCell::name);
  for (const char* flag : {"--init", "--learn-initial-state"})
    add_owned(owned_, command.get_option(flag), "--cell", parts, owners);
}

void TrainSettings::add_delta_options(CLI::App& command) {
  const char* g = model_group;
  const auto add_delta = [&](CLI::Option* option) {
    add_owned(owned_, option, "--cell", [this] { return names_of_parts(); }, {DeltaProductCell::name});
  };
  DeltaProductCell::fields([&](const char* key, auto member, const Domain& domain, const char* help) {
    // --hidden and --learn-initial-state are options of other cells too.
    if (std::string(key) != "hidden_size" && std::string(key) != "learn_initial_state")
      add_delta(add_field(command, g, key, delta.*member, domain, help));
  });
  GatedMlp::fields([&](const char* key, auto member, const Domain& domain, const char* help) {
    add_delta(add_field(command, g, key, mlp.*member, domain, help));
  });
  add_owned(owned_, command.get_option("--norm-epsilon"), "--readout-norm",
            [this] { return std::vector{name_of(delta.readout_norm)}; }, {name_of(ReadoutNorm::rms)});
  add_delta(
      add_value(
          command, "--no-mlp", no_mlp,
          "Blocks without a gated MLP; left out: with one, or as words, language or --init exact has it")
          ->group(g));
  add_delta(add_value(command, "--block-dropout", block_dropout,
                      "Dropout of what the parts of a block add to what they read", domain::below_one)
                ->group(g));
  add_delta(add_value(command, "--positions", positions,
                      "Steps of a sequence that have a learned vector each, which is added to what the first "
                      "block reads; 0 for none",
                      Domain{.low = 0, .high = static_cast<double>(Positions::most_steps)})
                ->group(g));
}

void TrainSettings::add_frame_options(CLI::App& command) {
  const auto add = [&](CLI::Option* option, const std::vector<std::string>& owners) {
    if (option != nullptr)
      add_owned(
          owned_, option, "--cell", [this] { return names_of_parts(); }, owners);
  };
  ConvNeru::fields([&](const char* key, auto member, const Domain& domain, const char* help) {
    const std::string name = key;
    if (name == "hidden_size") return;  // --hidden is an option of other cells too
    std::vector<std::string> owners = {ConvNeru::name};
    if (name == "kernel_size") owners.emplace_back(ConvLstm::name);
    add(add_field(command, model_group, key, conv_neru.*member, domain, help), owners);
  });
  ConvLstm::fields([&](const char* key, auto, const Domain& domain, const char* help) {
    if (std::string(key) == "peepholes")
      add(add_field(command, model_group, key, peepholes, domain, help), {ConvLstm::name});
  });
}

void TrainSettings::add_translation_options(CLI::App& command) {
  const char* g = model_group;
  add_fields(command, g, translation);
  command
      .add_option("--encoder", encoder,
                  "Recurrent layer of the encoder, if it is another one than --cell; names as there")
      ->group(g)
      ->check(CLI::IsMember(cell_names()));
  add_value(command, "--bidirectional", bidirectional, "The encoder reads forward and backward in time")
      ->group(g);
  for (const char* flag :
       {"--embedding-size", "--tied", "--dropout", "--label-smoothing", "--encoder", "--bidirectional"}) {
    add_owned(
        owned_, command.get_option(flag), "the task", [this] { return std::vector{task.name}; },
        translation_tasks());
  }
}

void TrainSettings::add_workload_to(CLI::App& command) {
  command.option_defaults()->always_capture_default();
  add_task_options(command);
  add_cell_options(command);
  add_delta_options(command);
  add_frame_options(command);
  add_translation_options(command);

  const char* g = "Training";
  add_fields(command, g, source);
  const std::vector<std::string> optimizers = names_of<OptimizerOptions>();
  command
      .add_option("--optimizer", optimizer.name,
                  one_of(optimizers) + "; left out: the default of task and cell")
      ->group(g)
      ->check(CLI::IsMember(optimizers))
      ->default_str("");
}

void TrainSettings::add_to(CLI::App& command) {
  add_workload_to(command);
  command
      .add_option(
          "--config", config,
          "TOML file as a run's config.toml, with any of its settings; the command line has the last word")
      ->configurable(false);

  const char* g = "Training";
  add_fields(command, g, optimizer, "--optimizer", owned_);
  std::vector<std::string> orthogonal = names_of<TransitionOptions>();
  orthogonal.emplace_back(ConvNeru::name);
  add_owned(
      owned_, command.get_option("--lr-orth"), "--cell", [this] { return names_of_parts(); }, orthogonal);
  add_fields(command, g, trainer);
  add_fields(command, g, trainer.schedule);
  const auto belongs = [&](const char* flag, std::vector<std::string> kinds) {
    add_owned(
        owned_, command.get_option(flag), "--schedule",
        [this] { return std::vector{name_of(trainer.schedule.kind)}; }, std::move(kinds));
  };
  belongs("--schedule-every", {"step"});
  belongs("--schedule-factor", {"step"});
  belongs("--schedule-final", {"cosine", "step"});
  add_value(command, "--epochs", epochs,
            "Passes over the data instead of --steps (mnist, translate, sequences)", domain::positive)
      ->group(g)
      ->default_str("")
      ->excludes(command.get_option("--steps"));
  add_value(command, "--until-solved", until_solved,
            "Stop as soon as the task counts as solved on validation data; exit code 3 when it never does")
      ->group(g);

  add_value(
      command, "--patience", patience,
      "Evaluations in a row without a smaller validation loss, after which the training ends; 0 for none",
      domain::not_negative)
      ->group(g);
  add_value(command, "--init-from", init_from,
            "Model file whose parameters the training begins with, where name and shape are the same")
      ->group(g);

  add_run_options(command);
}

void TrainSettings::add_run_options(CLI::App& command) {
  const char* g = "Run";
  machine.add_to(command);
  command
      .add_option(
          "--out", out,
          "Run directory for config.toml, metrics.csv, model.h5 and best.h5; left out: runs/TASK-CELL")
      ->group(g)
      ->configurable(false);  // someone else's file does not decide what is overwritten
  command.add_flag("--resume", resume, "Go on with the training in the run directory, with its settings")
      ->group(g)
      ->configurable(false);
  add_value(
      command, "--tensorboard", tensorboard,
      "Also write the numbers of metrics.csv as scalars for TensorBoard, an event file in the run directory")
      ->group(g);
  add_value(command, "--log-every", log_every,
            "Steps between two rows of metrics.csv (and lines, when output is no terminal)", domain::count)
      ->group(g);
  add_value(command, "--eval-every", eval_every,
            "Steps between two evaluations on validation data; left out: the task's default", domain::count)
      ->group(g)
      ->default_str("");
  add_value(command, "--save-every", save_every,
            "Steps between two saves of model.h5; left out: as --eval-every", domain::count)
      ->group(g)
      ->default_str("");
  command.add_flag("--verbose", verbose, "Print how the recurrence of each cell is computed")
      ->group(g)
      ->configurable(false);
}

void TrainSettings::remove(CLI::App& command, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    CLI::Option* option = command.get_option(name);
    owned_.remove_if([&](const OwnedOption& own) { return own.option == option; });
    command.remove_option(option);
  }
}

void TrainSettings::remove_other_tasks(CLI::App& command, const std::string& kept) {
  std::vector<std::string> others;
  for (const OwnedOption& own : owned_) {
    if (own.is_of("the task") && !own.belongs_to(kept)) others.push_back(own.option->get_name());
  }
  remove(command, others);
}

}  // namespace orthornn::program
