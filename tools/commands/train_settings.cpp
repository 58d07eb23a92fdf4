#include "commands/train_settings.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <initializer_list>

#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/saved_training.hpp"
#include "commands/training_defaults.hpp"
#include "orthornn/layers/delta_product_blocks.hpp"
#include "orthornn/text/normalization.hpp"

namespace orthornn::program {
namespace {

/// Options that describe the task and the model.
constexpr const char *task_group = "Task", *model_group = "Model";

std::vector<std::string> init_names() {
  std::vector<std::string> names = names_of<Init>();
  names.emplace_back(exact_init);
  return names;
}

/// The place as config.toml keeps it: absolute, as `eval` and `--resume` are started in other folders too. It
/// stays relative in a working folder whose name is no UTF-8, which TOML cannot hold.
std::string data_for_config(const std::string& data) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(data, failed).string();
  return failed || !is_utf8(whole) ? data : whole;
}

}  // namespace

std::vector<std::string> cell_names() {
  std::vector<std::string> names = names_of<TransitionOptions>();
  for (const std::string& kind : names_of<RecurrentOptions>()) {
    if (kind != OrthogonalCell::name) names.push_back(kind);
  }
  names.emplace_back(DeltaProductCell::name);
  return names;
}

void TrainSettings::add_workload_to(CLI::App& command) {
  command.option_defaults()->always_capture_default();
  command.add_option("task", task.name, one_of(task_names()))->check(CLI::IsMember(task_names()));

  const char* g = task_group;
  add_fields(command, g, task, "the task", owned_);
  add_owned(owned_, command.get_option("--generators"), "--alphabet",
            [this] { return std::vector{name_of(std::get<WordsOptions>(task.all).alphabet)}; },
            {name_of(Alphabet::random)});
  add_owned(
      owned_,
      command
          .add_option("--data", data,
                      "folder with the four IDX files, or zip, text or folder with the sentence pairs; left "
                      "out: data/mnist or data/tatoeba")
          ->default_str("")
          ->group(g),
      "the task", [this] { return std::vector{task.name}; }, {MnistOptions::name, TranslationOptions::name});

  g = model_group;
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

  const auto add_delta = [&](CLI::Option* option) {
    add_owned(owned_, option, "--cell", parts, {DeltaProductCell::name});
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
    add_owned(owned_, command.get_option(flag), "the task", [this] { return std::vector{task.name}; },
              {TranslationOptions::name});
  }

  g = "Training";
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
  add_owned(
      owned_, command.get_option("--lr-orth"), "--cell", [this] { return names_of_parts(); },
      names_of<TransitionOptions>());
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
  add_value(command, "--epochs", epochs, "Passes over the data instead of --steps (mnist, translate)",
            domain::positive)
      ->group(g)
      ->default_str("")
      ->excludes(command.get_option("--steps"));
  add_value(command, "--until-solved", until_solved,
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
    if (own.chooser == std::string("the task") && !own.belongs_to(kept))
      others.push_back(own.option->get_name());
  }
  remove(command, others);
}

bool TrainSettings::takes(const CLI::Option& option, const std::string& name) const {
  return std::ranges::none_of(owned_, [&](const OwnedOption& own) {
    return own.option == &option && own.chooser == std::string("--cell") && !own.belongs_to(name) &&
           !own.belongs_to(encoder);
  });
}

std::unique_ptr<Task> TrainSettings::complete(CLI::App& command, bool may_exist) {
  const auto given = [&](const char* name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return option != nullptr && option->count() > 0;
  };
  // Before a file is read, whose settings count as given from then on.
  std::vector<const OwnedOption*> owned_given;
  for (const OwnedOption& own : owned_) {
    if (own.option->count() > 0) owned_given.push_back(&own);
  }
  const bool new_rate = given("--lr") && !given("--lr-orth"), mlp_is_sized = given("--mlp-size"),
             order_is_seeded = given("--permutation-seed");
  const bool new_init = given("--init");
  if (!config.empty() && read_config(command, config))
    note(fmt::format("'out' in {} is ignored; only --out says where a run is kept", config));
  if (!config.empty()) stack = layers_in(config);
  if (resume) {
    if (out.empty() && task.name.empty()) throw UsageError("--resume needs the run directory: --out DIR");
    if (out.empty()) out = fmt::format("runs/{}-{}", task.name, cell_name());
    const std::filesystem::path saved = std::filesystem::path(out) / "config.toml";
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(saved, ignored)) {
      throw FileError(fmt::format("there is no training to resume in '{}': no config.toml", out));
    }
    const std::string saved_task = setting_in(saved.string(), "task");
    if (!task.name.empty() && task.name != saved_task) {
      throw UsageError(
          fmt::format("the training in '{}' is of the task {}, not {}", out, saved_task, task.name));
    }
    if (config.empty()) {
      read_config(command, saved.string());
      stack = layers_in(saved.string());
    }
  }
  if (resume) check_resumed(command);
  if (!stack.empty()) {
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_group() != model_group || option->count() == 0) continue;
      throw UsageError(fmt::format("'{}' and [[layer]] tables both describe the model; expected one of them",
                                   option->get_single_name()));
    }
  }
  if (task.name.empty()) throw UsageError(fmt::format("which task? expected {}", one_of(task_names())));
  if (data.empty()) data = usual_data(task.name);
  if (!data.empty()) data = data_for_config(data);
  if (!stack.empty() && task.name == TranslationOptions::name) {
    throw UsageError(
        "[[layer]] tables describe a model of one sequence, and the task translate has two; use --cell and "
        "--layers");
  }
  if (out.empty()) out = fmt::format("runs/{}-{}", task.name, cell_name());
  // 1. The task, whose data may take a minute to read: what can be refused before is refused now.
  const SavedTraining saved(out);
  const bool keeps_runs = command.get_option_no_throw("--out") != nullptr;
  if (keeps_runs && !resume && !may_exist && saved.exists()) {
    throw FileError(fmt::format(
        "'{}' holds a trained model already: go on with it by --resume, or choose another --out", out));
  }
  std::unique_ptr<Task> described = make_task();
  if ((resume || may_exist) && saved.exists()) {
    source.parts = saved.parts_of(*described);
    described = make_task();
  }
  // 2. What is still open.
  const TrainingDefaults defaults = training_defaults(
      *described, recurrences_of_parts(), given("--hidden") || !stack.empty() ? hidden_size() : 0);
  const TaskDefaults& of_task = defaults.task;
  if (!given("--optimizer")) optimizer.name = of_task.optimizer;
  for (const OwnedOption* own : owned_given) own->check();
  if (mlp_is_sized && no_mlp)
    throw UsageError("--mlp-size is the size of the MLP, which --no-mlp leaves out; expected one of the two");
  if (order_is_seeded && !std::get<MnistOptions>(task.all).permuted)
    throw UsageError("--permutation-seed decides the order of --permuted, which was not given");

  if (positions > 0 && task.name == TranslationOptions::name)
    throw UsageError(
        "--positions is of models of one sequence, and the task translate has two; leave it out");
  if (positions > 0 && positions < described->length()) {
    throw UsageError(
        fmt::format("--positions {} are fewer than the {} steps of the task's sequences; expected "
                    "as many or more, or 0",
                    positions, described->length()));
  }

  const std::vector<std::string> parts = names_of_parts();
  const bool has_transition = std::ranges::any_of(
      parts, [](const std::string& name) { return find_name<TransitionOptions>(name).has_value(); });
  if (new_init && (init == exact_init ? !is_delta() : !has_transition)) {
    throw UsageError(fmt::format("--init {} was given with --cell {}; expected {}", init, transition.name,
                                 is_delta() ? "exact, or none" : one_of(names_of<Init>())));
  }
  if (!given("--hidden")) cell.hidden_size = of_task.hidden_size;
  if (!given("--activation")) cell.activation = defaults.activation;
  // A file may have that of another cell.
  const Init initial_transition = find_name<Init>(init).value_or(of_task.init);
  transition.each([&](auto& options) { options.init = initial_transition; });
  if (is_exact()) {
    complete_exact(command, *described);
  } else {
    // What the settings of a begun training lack, they are older than.
    if (!resume) {
      DeltaProductCell::fields([&](const char* key, auto member, const Domain&, const char*) {
        if (std::string(key) != "hidden_size" && !given(flag_of(key).flag.c_str()))
          delta.*member = defaults.delta.*member;
      });
      if (is_delta() && !given("--learn-initial-state"))
        cell.learn_initial_state = defaults.delta.learn_initial_state;
      if (!given("--without-values")) delta.without_values &= cell.learn_initial_state;
      if (!given("--no-mlp") && !given("--mlp-size")) no_mlp = defaults.no_mlp;
    }
    init = name_of(initial_transition);
  }
  if (!given("--batch") && source.batch != of_task.batch) {
    source.batch = of_task.batch;
    described = make_task();
  }
  optimizer.each([&](auto& options) {
    if (!given("--lr")) options.lr = of_task.learning_rate;
    // A rate on the command line takes the orthogonal one along, which a file states even where it was left
    // out.
    if (!given("--lr-orth") || new_rate)
      options.lr_orthogonal = options.lr * of_task.learning_rate_orthogonal / of_task.learning_rate;
  });
  AdamW& decoupled = std::get<AdamW>(optimizer.all);
  // What is exact must not shrink, and needs no short words.
  if (!given("--weight-decay") && defaults.weight_decay && !is_exact())
    decoupled.weight_decay = *defaults.weight_decay;
  if (!given("--clip")) trainer.clip = of_task.clip;
  if (!given("--eval-every")) eval_every = of_task.evaluation_steps;
  if (!given("--save-every")) save_every = eval_every;
  Schedule& schedule = trainer.schedule;
  if (given("--epochs")) {
    const std::optional<Index> batches = described->batches_per_epoch();
    if (!batches) {
      throw UsageError(
          fmt::format("the task {} has no epochs: its data never repeat; use --steps", task.name));
    }
    const double exact = epochs * static_cast<double>(*batches);
    if (!(exact < 1e15))
      throw UsageError(fmt::format("--epochs {} are {:.3g} steps; expected below 1e15", epochs, exact));
    schedule.total_steps = std::max<std::int64_t>(1, std::llround(exact));
  } else if (!given("--steps")) {
    schedule.total_steps = is_exact() && keeps_runs ? 0 : of_task.steps;
  }
  if (steps() == 0 && !is_exact())
    throw UsageError(
        "--steps 0 trains nothing; expected 1 or more, or --init exact, which needs no training");
  // A benchmark takes the first steps alone, and they are to be of the whole length.
  if (task.name == WordsOptions::name && !given("--curriculum") && keeps_runs && !is_exact()) {
    Index& curriculum = std::get<WordsOptions>(task.all).curriculum;
    const auto of_stage = static_cast<Index>(defaults.curriculum_share * static_cast<double>(steps()));
    if (curriculum != of_stage) {
      curriculum = of_stage;
      described = make_task();
    }
  }
  if (!given("--warmup")) schedule.warmup_steps = defaults.warmup(steps());
  if (schedule.kind == Schedule::Kind::cosine && steps() > 0 && schedule.warmup_steps >= steps()) {
    throw UsageError(fmt::format(
        "--warmup {} (given, or of the configuration file) leaves nothing of --steps {}; expected fewer",
        schedule.warmup_steps, steps()));
  }
  for (const LayerOptions& chosen : recurrences_of_parts()) {
    const Index* reflections = reflections_of(chosen);
    if (stack.empty() && reflections != nullptr && *reflections > cell.hidden_size) {
      throw UsageError(
          fmt::format("--reflections {} is more than --hidden {}", *reflections, cell.hidden_size));
    }
  }
  trainer.optimizer = optimizer.chosen();
  if (!stack.empty()) {
    try {
      check_sizes(model_options(*described));
    } catch (const Error& error) {
      throw UsageError(fmt::format("[[layer]] tables: {}", error.what()));
    }
    if (const std::optional<Index> most = fewest_positions(stack); most && *most < described->length()) {
      throw UsageError(
          fmt::format("[[layer]] tables: a layer of positions for {} steps, and the task's sequences have "
                      "{}; expected as "
                      "many or more",
                      *most, described->length()));
    }
  }
  return described;
}

void TrainSettings::check_resumed(CLI::App& command) const {
  if (!SavedTraining(out).exists()) return;  // without a model it starts anew
  const auto of_run = settings_in((std::filesystem::path(out) / "config.toml").string());
  const auto here = settings_of(config_text(command));
  const nlohmann::ordered_json empty = "";
  const auto text = [&](const auto& value) {
    return value == empty ? "''" : value.is_string() ? value.template get<std::string>() : value.dump();
  };
  for (const CLI::Option* option : command.get_options()) {
    const std::string key = option->get_single_name(), group = option->get_group();
    const bool stays = (group == task_group && key != "data") || group == model_group || key == "batch" ||
                       key == "seed" || key == "optimizer";
    if (!stays || option->count() == 0) continue;
    // Texts that are empty are left out of the settings. So is what the run did not know yet.
    const auto now = here.value(key, empty), then = of_run.value(key, empty);
    if (now == then || (!of_run.contains(key) && !now.is_string())) continue;
    // It is refused as an option of another cell or task, and has no value in this training.
    if (std::ranges::any_of(owned_,
                            [&](const OwnedOption& own) { return own.option == option && !own.is_chosen(); }))
      continue;
    const std::string flag = option->get_name();
    std::string found = then == empty ? "has none" : fmt::format("has {} {}", flag, text(then));
    if (key == "init" && is_exact()) found = "began with random weights";
    throw UsageError(fmt::format(
        "{0} {1} was given, and the training in '{2}' {3}: a training is resumed with its own task, "
        "model, batch, seed and optimizer; leave out {0}, or begin a training with another --out",
        flag, text(now), out, found));
  }
}

void TrainSettings::complete_exact(const CLI::App& command, const Task& of_task) {
  const auto network_of = [&](Index layer_count) {
    try {
      return ExactNetwork(exact_words(of_task), layer_count);
    } catch (const ValueError& error) {
      throw UsageError(fmt::format("--init exact: {}", error.what()));
    }
  };
  const ExactNetwork network = network_of(layers);
  const auto given = [&](const char* flag) { return command.get_option(flag)->count() > 0; };
  const auto take = [&](const char* flag, Index& value, Index least, const std::string& way_out = "") {
    if (!given(flag)) value = least;
    if (value < least) {
      throw UsageError(
          fmt::format("--init exact needs {} {} or more for this task with {} layer{}; found {}{}", flag,
                      least, layers, layers == 1 ? "" : "s", value, way_out));
    }
  };
  const DeltaProductCell& least = network.cell();
  std::string way_out;
  if (layers == 1 && exact_words(of_task).group.degree() <= ExactNetwork::most_points) {
    const Index of_three = network_of(3).cell().householder;
    if (of_three < least.householder) way_out = fmt::format("; with --layers 3 it needs {}", of_three);
  }
  take("--householder", delta.householder, least.householder, way_out);
  take("--hidden", cell.hidden_size, least.hidden_size);
  take("--heads", delta.heads, least.heads);
  take("--key-size", delta.key_size, least.key_size);
  take("--value-size", delta.value_size, least.value_size);
  if (network.mlp()) {
    take("--mlp-size", mlp.mlp_size, network.mlp()->mlp_size);
  } else if (!given("--mlp-size")) {
    no_mlp = true;
  }
  if (!given("--readout-norm")) delta.readout_norm = ReadoutNorm::none;
  const std::pair<const char*, bool> others[] = {
      {"--readout-norm", delta.readout_norm != least.readout_norm},
      {"--beta-limit", delta.beta_limit != least.beta_limit},
      {"--decay", delta.state_decay},
      {"--factor", delta.factor != least.factor},
      {"--beta-offset", delta.beta_offset != least.beta_offset},
      {"--vector-activation", delta.vector_activation != least.vector_activation},
      {"--learn-initial-state", cell.learn_initial_state},
      {"--without-values", delta.without_values},
      {"--convolution", delta.convolution != least.convolution},
      {"--output-gate", delta.output_gate},
      {"--block-dropout", block_dropout > 0},
      {"--positions", positions > 0},
      {"--no-mlp", no_mlp && network.mlp()}};
  for (const auto& [flag, differs] : others) {
    if (differs)
      throw UsageError(
          fmt::format("--init exact was given with {}, with which no weights are known; leave it out", flag));
  }
}

GroupWords TrainSettings::exact_words(const Task& of_task) const {
  const auto* sequences = dynamic_cast<const SequenceTask*>(&of_task);
  const std::optional<GroupWords> words = sequences == nullptr ? std::nullopt : sequences->group_words();
  if (words) return *words;
  throw ValueError(
      fmt::format("{} is no word problem of a group; expected the task words, or language with --language "
                  "parity or cycle",
                  task.name == LanguageOptions::name ? "this language" : "the task " + task.name));
}

std::optional<ExactNetwork> TrainSettings::exact_network(const Task& of_task) const {
  if (!is_exact()) return std::nullopt;
  return ExactNetwork(exact_words(of_task), layers);
}

std::unique_ptr<Task> TrainSettings::make_task() const {
  TaskSource with_data = source;
  with_data.data = data;
  return orthornn::make_task(task.chosen(), with_data);
}

std::string TrainSettings::to_toml(CLI::App& command) const {
  return config_text(command, stack.empty() ? "" : model_group) + (stack.empty() ? "" : layers_text(stack));
}

LayerOptions TrainSettings::recurrent() const {
  const LayerOptions* first = nullptr;
  each_layer(stack, [&](const LayerOptions& layer) {
    if (first == nullptr && is_recurrence(layer)) first = &layer;
  });
  return first != nullptr ? *first : recurrent(transition.name);
}

LayerOptions TrainSettings::recurrent(const std::string& name) const {
  if (name == DeltaProductCell::name) {
    DeltaProductCell sized = delta;
    sized.learn_initial_state = cell.learn_initial_state;
    sized.hidden_size = cell.hidden_size;
    return sized;
  }
  std::optional<RecurrentOptions> options = find_name<RecurrentOptions>(name);
  if (!options) {
    OrthogonalCell orthogonal = cell;
    orthogonal.transition = transition.named(name);
    return orthogonal;
  }
  std::visit([&](auto& chosen) { chosen.hidden_size = cell.hidden_size; }, *options);
  return layer_options(*options);
}

std::string TrainSettings::encoder_name() const {
  return encoder.empty() || task.name != TranslationOptions::name ? transition.name : encoder;
}

std::vector<std::string> TrainSettings::names_of_parts() const {
  if (encoder_name() == transition.name) return {transition.name};
  return {transition.name, encoder_name()};
}

std::vector<LayerOptions> TrainSettings::recurrences_of_parts() const {
  std::vector<LayerOptions> found = {recurrent()};
  if (names_of_parts().size() > 1) found.push_back(recurrent(encoder_name()));
  return found;
}

std::string TrainSettings::cell_text() const {
  if (names_of_parts().size() == 1) return cell_name();
  return fmt::format("{}, encoder {}", cell_name(), encoder_name());
}

std::vector<LayerOptions> TrainSettings::layers_of(const std::string& name, Index input_size) const {
  const LayerOptions chosen = recurrent(name);
  if (name != DeltaProductCell::name)
    return std::vector<LayerOptions>(static_cast<std::size_t>(layers), chosen);
  const auto& sized = std::get<DeltaProductCell>(chosen);
  std::vector<LayerOptions> blocks =
      delta_product_blocks(sized, no_mlp ? std::nullopt : std::optional(mlp), layers, block_dropout);
  if (positions > 0) blocks.insert(blocks.begin(), Positions{positions});
  // A block adds to what it reads.
  if (input_size != sized.hidden_size) blocks.insert(blocks.begin(), Linear{sized.hidden_size});
  return blocks;
}

EncoderDecoderOptions TrainSettings::translation_options(const TranslationTask& of_task) const {
  EncoderDecoderOptions options = translation;
  options.source_symbols = of_task.source_tokenizer().size();
  options.target_symbols = of_task.target_tokenizer().size();
  options.decoder = layers_of(transition.name, options.embedding_size);
  options.encoder = layers_of(encoder_name(), options.embedding_size);
  if (bidirectional) options.encoder = {Bidirectional{options.encoder}};
  return options;
}

AnyModelOptions TrainSettings::model_options(const Task& of_task) const {
  if (const auto* pairs = dynamic_cast<const TranslationTask*>(&of_task)) return translation_options(*pairs);
  const auto* sequences = dynamic_cast<const SequenceTask*>(&of_task);
  if (sequences == nullptr)
    throw UsageError(
        fmt::format("the task {} has no sequences that a model of --cell could read", task.name));
  const SequenceData found = sequences->data();
  if (!stack.empty()) return model_for(found, stack);
  if (transition.name != DeltaProductCell::name || found.symbols == 0)
    return model_for(found, layers_of(transition.name, found.features));
  ModelOptions options = model_for(found, layers_of(transition.name, cell.hidden_size));
  options.input = TokenEmbedding{.tokens = found.symbols, .size = cell.hidden_size};
  return options;
}

}  // namespace orthornn::program
