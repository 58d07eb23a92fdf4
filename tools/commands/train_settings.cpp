#include "commands/train_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "commands/flat_toml.hpp"
#include "commands/training_defaults.hpp"

namespace orthornn::program {
namespace {

constexpr Index most = Index{1} << 40;
const CLI::Range positive(Index{1}, most);
const CLI::Range not_negative(Index{0}, most);
const CLI::Validator rate = number_from(0, std::numeric_limits<double>::infinity());
const CLI::Validator positive_rate = number_from(0, std::numeric_limits<double>::infinity(), false);
const CLI::Validator share = number_from(0, 1);
// Parameters are floats: what is nearer to 1, or to 0, would be 1 or 0 there.
const CLI::Validator below_one = number_from(0, 0.9999999);
const CLI::Validator epsilon_domain = number_from(1e-30, std::numeric_limits<double>::infinity());

using Json = nlohmann::json;

/// Options that only some choice of another setting minds. A configuration file may hold them all; on the
/// command line, where nothing would come of them, they are a mistake.
struct OwnedOption {
  const char* option;
  /// What has the choice, by its name in messages.
  const char* chooser;
  std::string TrainSettings::*choice;
  std::vector<std::string> owners;
};
const OwnedOption owned_options[] = {
    {"--delay", "the task", &TrainSettings::task, {"copying"}},
    {"--length", "the task", &TrainSettings::task, {"adding"}},
    {"--permuted", "the task", &TrainSettings::task, {"mnist"}},
    {"--permutation-seed", "the task", &TrainSettings::task, {"mnist"}},
    {"--data", "the task", &TrainSettings::task, {"mnist"}},
    {"--reflections", "--cell", &TrainSettings::cell, {"cwy", "householder"}},
    {"--form", "--cell", &TrainSettings::cell, {"cwy"}},
    {"--negative-signs", "--cell", &TrainSettings::cell, {"cayley"}},
    {"--momentum", "--optimizer", &TrainSettings::optimizer, {"sgd"}},
    {"--rmsprop-decay", "--optimizer", &TrainSettings::optimizer, {"rmsprop"}},
    {"--beta1", "--optimizer", &TrainSettings::optimizer, {"adam", "adamw"}},
    {"--beta2", "--optimizer", &TrainSettings::optimizer, {"adam", "adamw"}},
    {"--epsilon", "--optimizer", &TrainSettings::optimizer, {"rmsprop", "adam", "adamw"}},
    {"--schedule-every", "--schedule", &TrainSettings::schedule, {"step"}},
    {"--schedule-factor", "--schedule", &TrainSettings::schedule, {"step"}},
    {"--schedule-final", "--schedule", &TrainSettings::schedule, {"cosine", "step"}}};

/// Settings of Task::config().
struct TaskSetting {
  const char* task;
  const char* key;
  Json (*value)(const TrainSettings&);
};
const TaskSetting task_settings[] = {
    {"copying", "delay", [](const TrainSettings& s) { return Json(s.delay); }},
    {"adding", "length", [](const TrainSettings& s) { return Json(s.length); }},
    {"mnist", "permuted", [](const TrainSettings& s) { return Json(s.permuted); }},
    {"mnist", "permutation_seed", [](const TrainSettings& s) { return Json(s.permutation_seed); }}};

/// Options whose default follows from the task or from other options: what is bound to them before it is
/// known is no default, and a help that showed it would be wrong.
constexpr const char* settled_later[] = {"--hidden",       "--batch",  "--optimizer",  "--steps",
                                         "--epochs",       "--lr",     "--lr-orth",    "--clip",
                                         "--weight-decay", "--warmup", "--eval-every", "--save-every"};

void show_no_default(CLI::App& command) {
  for (const char* name : settled_later) {
    if (CLI::Option* option = command.get_option_no_throw(name)) option->default_str("");
  }
}

/// CLI11 writes six digits of these, too few to train on with the same bits.
struct RealNumber {
  const char* option;
  double TrainSettings::*value;
};
constexpr RealNumber real_numbers[] = {{"--lr", &TrainSettings::lr},
                                       {"--lr-orth", &TrainSettings::lr_orth},
                                       {"--momentum", &TrainSettings::momentum},
                                       {"--rmsprop-decay", &TrainSettings::rmsprop_decay},
                                       {"--beta1", &TrainSettings::beta1},
                                       {"--beta2", &TrainSettings::beta2},
                                       {"--epsilon", &TrainSettings::epsilon},
                                       {"--weight-decay", &TrainSettings::weight_decay},
                                       {"--clip", &TrainSettings::clip},
                                       {"--schedule-factor", &TrainSettings::schedule_factor},
                                       {"--schedule-final", &TrainSettings::schedule_final}};

}  // namespace

void TrainSettings::add_workload_to(CLI::App& command) {
  command.option_defaults()->always_capture_default();
  command.add_option("task", task, "copying, adding or mnist")->check(CLI::IsMember(task_names()));

  const char* g = "Task";
  command.add_option("--delay", delay, "copying: steps to remember over")->group(g)->check(positive);
  command.add_option("--length", length, "adding: steps of a sequence")
      ->group(g)
      ->check(CLI::Range(Index{2}, Index{1} << 40));
  command.add_flag("--permuted", permuted, "mnist: read the pixels in one fixed random order")->group(g);
  command
      .add_option("--permutation-seed", permutation_seed,
                  "mnist: that order is NumPy's RandomState(SEED).permutation(784)")
      ->group(g)
      ->check(seed_number());
  command.add_option("--data", data, "mnist: folder with the four IDX files")->group(g);

  g = "Model";
  command.add_option("--cell", cell, "Transition: cwy, householder, cayley, expm or free (unconstrained)")
      ->group(g)
      ->check(CLI::IsMember({"cwy", "householder", "cayley", "expm", "free"}));
  command.add_option("--hidden", hidden, "State size N; left out: the task's default")
      ->group(g)
      ->check(positive);
  command.add_option("--reflections", reflections, "cwy, householder: reflections L, 1 to N; 0 for N")
      ->group(g)
      ->check(not_negative);
  command.add_option("--layers", layers, "Cells, one on the other")
      ->group(g)
      ->check(CLI::Range(Index{1}, Index{64}));
  command.add_option("--activation", activation, "tanh, relu, abs, modrelu or identity")
      ->group(g)
      ->check(CLI::IsMember({"tanh", "relu", "abs", "modrelu", "identity"}));
  command
      .add_option("--init", init,
                  "Initial transition: henaff, cayley, haar or normal; left out: the task's default")
      ->group(g)
      ->check(CLI::IsMember({"henaff", "cayley", "haar", "normal"}));
  command.add_option("--form", form, "cwy: dense, factored, or automatic for the cheaper one")
      ->group(g)
      ->check(CLI::IsMember({"automatic", "dense", "factored"}));
  command
      .add_option("--input-matrix", input_matrix,
                  "Input matrix: free, or stiefel for orthonormal columns (T-CWY)")
      ->group(g)
      ->check(CLI::IsMember({"free", "stiefel"}));
  command.add_option("--negative-signs", negative_signs, "cayley: entries -1 of its fixed diagonal")
      ->group(g)
      ->check(not_negative);

  command
      .add_flag("--learn-initial-state", learn_initial_state,
                "Learn the state in which every sequence starts, instead of zeros")
      ->group(g);

  g = "Training";
  command.add_option("--batch", batch, "Sequences B of a batch; left out: the task's default")
      ->group(g)
      ->check(positive);
  command.add_option("--optimizer", optimizer, "sgd, rmsprop, adam or adamw; left out: the task's default")
      ->group(g)
      ->check(CLI::IsMember({"sgd", "rmsprop", "adam", "adamw"}));
  command.add_option("--seed", seed, "Decides initial parameters and all data")
      ->group(g)
      ->check(seed_number());
  show_no_default(command);
}

void TrainSettings::add_to(CLI::App& command) {
  add_workload_to(command);
  command
      .add_option("--config", config,
                  "TOML file with any of these options, without dashes; the command line has the last word")
      ->configurable(false);

  const char* g = "Training";
  auto* steps_option =
      command.add_option("--steps", steps, "Training steps in all; left out: the task's default")
          ->group(g)
          ->check(positive);
  command.add_option("--epochs", epochs, "Passes over the data instead of --steps (mnist)")
      ->group(g)
      ->check(positive_rate)
      ->excludes(steps_option);
  command
      .add_option("--lr", lr, "Learning rate; left out: the task's default, which is for its own --optimizer")
      ->group(g)
      ->check(positive_rate);
  command
      .add_option("--lr-orth", lr_orth,
                  "Learning rate of orthogonal parameters; left out: the task's share of --lr")
      ->group(g)
      ->check(rate);
  command.add_option("--momentum", momentum, "sgd: momentum, 0 to below 1")->group(g)->check(below_one);
  command
      .add_option("--rmsprop-decay", rmsprop_decay,
                  "rmsprop: share of the mean of squares that a step keeps, 0 to below 1")
      ->group(g)
      ->check(below_one);
  command.add_option("--beta1", beta1, "adam, adamw: share of the mean gradient that a step keeps")
      ->group(g)
      ->check(below_one);
  command.add_option("--beta2", beta2, "adam, adamw: share of the mean of squares that a step keeps")
      ->group(g)
      ->check(below_one);
  command
      .add_option("--epsilon", epsilon,
                  "rmsprop, adam, adamw: added to the root of the mean of squares, above 0")
      ->group(g)
      ->check(epsilon_domain);
  command
      .add_option("--weight-decay", weight_decay,
                  "Weight decay, of which reflection vectors have none; left out: 0, adamw 0.01")
      ->group(g)
      ->check(rate);
  command
      .add_option("--clip", clip,
                  "Largest global norm of the gradient, 0 for no limit; left out: the task's default")
      ->group(g)
      ->check(rate);
  command.add_option("--schedule", schedule, "Of the learning rates: constant, cosine (to --steps) or step")
      ->group(g)
      ->check(CLI::IsMember({"constant", "cosine", "step"}));
  command
      .add_option("--warmup", warmup,
                  "Steps of a linear rise of the learning rates at first; left out: 0, or a tenth of --steps "
                  "with --cell free")
      ->group(g)
      ->check(not_negative);
  command.add_option("--schedule-every", schedule_every, "step: training steps between two drops")
      ->group(g)
      ->check(positive);
  command.add_option("--schedule-factor", schedule_factor, "step: what a drop multiplies the rates by")
      ->group(g)
      ->check(share);
  command
      .add_option("--schedule-final", schedule_final,
                  "cosine, step: share of the rates that remains in the end")
      ->group(g)
      ->check(share);
  command
      .add_flag(
          "--until-solved", until_solved,
          "Stop as soon as the task counts as solved on validation data; exit code 3 when it never does")
      ->group(g);

  g = "Run";
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
  command
      .add_option("--log-every", log_every,
                  "Steps between two rows of metrics.csv (and lines, when output is no terminal)")
      ->group(g)
      ->check(positive);
  command
      .add_option("--eval-every", eval_every,
                  "Steps between two evaluations on validation data; left out: the task's default")
      ->group(g)
      ->check(positive);
  command
      .add_option("--save-every", save_every,
                  "Steps between two saves of model.h5; left out: as --eval-every")
      ->group(g)
      ->check(positive);
  command.add_flag("--verbose", verbose, "Print how the recurrence of each cell is computed")
      ->group(g)
      ->configurable(false);
  show_no_default(command);
}

std::unique_ptr<Task> TrainSettings::complete(CLI::App& command) {
  const auto given = [&](const char* name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return option != nullptr && option->count() > 0;
  };
  // Before a file is read, whose settings count as given from then on.
  std::vector<const OwnedOption*> owned_given;
  for (const OwnedOption& own : owned_options) {
    if (given(own.option)) owned_given.push_back(&own);
  }
  const bool new_rate = given("--lr") && !given("--lr-orth");
  if (!config.empty() && read_config(command, config))
    note(fmt::format("'out' in {} is ignored; only --out says where a run is kept", config));
  if (resume) {
    if (out.empty() && task.empty()) throw UsageError("--resume needs the run directory: --out DIR");
    if (out.empty()) out = fmt::format("runs/{}-{}", task, cell);
    const std::filesystem::path saved = std::filesystem::path(out) / "config.toml";
    if (!std::filesystem::is_regular_file(saved)) {
      throw FileError(fmt::format("there is no training to resume in '{}': no config.toml", out));
    }
    const std::string saved_task = setting_in(saved.string(), "task");
    if (!task.empty() && task != saved_task) {
      throw UsageError(fmt::format("the training in '{}' is of the task {}, not {}", out, saved_task, task));
    }
    if (config.empty()) read_config(command, saved.string());
  }
  if (task.empty()) throw UsageError("which task? orthornn train copying, adding or mnist");
  const TrainingDefaults defaults = training_defaults(
      *make_task(), {.name = cell, .hidden = given("--hidden") ? hidden : 0, .reflections = reflections});
  const TaskDefaults& of_task = defaults.task;
  if (!given("--optimizer")) optimizer = of_task.optimizer;
  for (const OwnedOption* own : owned_given) {
    const std::string& chosen = this->*own->choice;
    if (std::find(own->owners.begin(), own->owners.end(), chosen) == own->owners.end()) {
      throw UsageError(fmt::format("{} is an option of {} {}, not of {}", own->option, own->chooser,
                                   fmt::join(own->owners, " or "), chosen));
    }
  }
  if (out.empty()) out = fmt::format("runs/{}-{}", task, cell);

  if (!given("--hidden")) hidden = of_task.hidden_size;
  if (!given("--init")) init = name_of(of_task.init);
  if (!given("--batch")) batch = of_task.batch;
  if (!given("--lr")) lr = of_task.learning_rate;
  // A rate on the command line takes the orthogonal one along, which a file states even where it was left
  // out.
  if (!given("--lr-orth") || new_rate)
    lr_orth = lr * of_task.learning_rate_orthogonal / of_task.learning_rate;
  if (!given("--weight-decay")) weight_decay = optimizer == "adamw" ? AdamW{}.weight_decay : 0;
  if (!given("--clip")) clip = of_task.clip;
  if (!given("--eval-every")) eval_every = of_task.evaluation_steps;
  if (!given("--save-every")) save_every = eval_every;
  std::unique_ptr<Task> described = make_task();
  if (given("--epochs")) {
    const std::optional<Index> batches = described->batches_per_epoch();
    if (!batches)
      throw UsageError(fmt::format("the task {} has no epochs: its data never repeat; use --steps", task));
    const double exact = epochs * static_cast<double>(*batches);
    if (!(exact < 1e15))
      throw UsageError(fmt::format("--epochs {} are {:.3g} steps; expected below 1e15", epochs, exact));
    steps = std::max<std::int64_t>(1, std::llround(exact));
  } else if (!given("--steps")) {
    steps = of_task.steps;
  }
  if (!given("--warmup")) warmup = defaults.warmup(steps);
  if (schedule == "cosine" && warmup >= steps) {
    throw UsageError(fmt::format(
        "--warmup {} (given, or of the configuration file) leaves nothing of --steps {}; expected fewer",
        warmup, steps));
  }
  if ((cell == "cwy" || cell == "householder") && reflections > hidden) {
    throw UsageError(fmt::format("--reflections {} is more than --hidden {}", reflections, hidden));
  }
  return described;
}

std::string TrainSettings::to_toml(const CLI::App& command) const {
  std::string text =
      fmt::format("# orthornn {} train: every setting of this run; use it with --config\n", version());
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_configurable() || option->get_name() == "--help") continue;
    if (option->get_name() == "--epochs") continue;  // steps says it
    // The bound variable as it is now: given, configured or by default.
    const_cast<CLI::Option*>(option)->capture_default_str();
    std::string value = option->get_default_str();
    if (option->get_expected_max() == 0) value = option->as<bool>() ? "true" : "false";
    if (option->get_type_name().starts_with("TEXT")) value = toml_string(value);
    const auto* exact = std::find_if(std::begin(real_numbers), std::end(real_numbers),
                                     [&](const RealNumber& r) { return option->get_name() == r.option; });
    if (exact != std::end(real_numbers)) value = fmt::format("{}", this->*exact->value);
    text += fmt::format("{} = {}\n", option->get_single_name(), value);
  }
  return text;
}

std::unique_ptr<Task> TrainSettings::make_task() const {
  Json task_config = {{"task", task}};
  for (const TaskSetting& own : task_settings) {
    if (task == own.task) task_config[own.key] = own.value(*this);
  }
  return orthornn::make_task(task_config.dump(),
                             {.batch = batch > 0 ? batch : 128, .seed = seed, .data = data});
}

ModelOptions TrainSettings::model_options(const Task& of_task) const {
  const Init initial = parse_init(init);
  OrthogonalCell one{.hidden_size = hidden,
                     .transition = Unconstrained{initial},
                     .activation = parse_activation(activation),
                     .input_matrix = parse_input_matrix(input_matrix),
                     .learn_initial_state = learn_initial_state};
  if (cell == "cwy") one.transition = Cwy{reflections, initial, parse_reflection_form(form)};
  if (cell == "householder") one.transition = HouseholderProduct{reflections, initial};
  if (cell == "cayley") one.transition = ScaledCayley{negative_signs, initial};
  if (cell == "expm") one.transition = MatrixExponential{initial};
  return {.input = of_task.input(),
          .cells = std::vector<OrthogonalCell>(static_cast<std::size_t>(layers), one),
          .readout = of_task.readout(),
          .loss = of_task.loss()};
}

TrainerOptions TrainSettings::trainer_options() const {
  TrainerOptions options;
  if (optimizer == "sgd") options.optimizer = Sgd{.momentum = momentum};
  if (optimizer == "rmsprop") options.optimizer = RmsProp{.decay = rmsprop_decay, .epsilon = epsilon};
  if (optimizer == "adam") options.optimizer = Adam{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
  if (optimizer == "adamw") options.optimizer = AdamW{.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
  std::visit(
      [&](auto& o) {
        o.lr = lr;
        o.lr_orthogonal = lr_orth;
        o.weight_decay = weight_decay;
      },
      options.optimizer);
  options.schedule = {.kind = parse_schedule(schedule),
                      .warmup_steps = warmup,
                      .total_steps = steps,
                      .step_every = schedule_every,
                      .step_factor = schedule_factor,
                      .final_factor = schedule_final};
  options.clip = clip;
  return options;
}

}  // namespace orthornn::program
