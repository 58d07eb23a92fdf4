// What completes and checks settings. The order of the checks decides which mistake a user hears of first.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <tuple>

#include "commands/any_model.hpp"
#include "commands/config_file.hpp"
#include "commands/saved_training.hpp"
#include "commands/task_data.hpp"
#include "commands/train_settings.hpp"
#include "commands/translation.hpp"
#include "core/quantity.hpp"
#include "orthornn/text/normalization.hpp"

namespace orthornn::program {
namespace {

/// The place as config.toml keeps it: absolute, as `eval` and `--resume` are started in other folders too. It
/// stays relative in a working folder whose name is no UTF-8, which TOML cannot hold.
std::string place_for_config(const std::string& place) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(place, failed).string();
  return failed || !is_utf8(whole) ? place : whole;
}

/// On the command line, or in a file that was read since. A command may lack the option.
bool is_given(const CLI::App& command, const char* name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

}  // namespace

struct TrainSettings::Typed {
  std::vector<const OwnedOption*> owned;
  /// --lr without --lr-orth.
  bool new_rate;
  /// --lr-orth.
  bool orthogonal_rate;
  bool optimizer;
  bool mlp_size;
  bool permutation_seed;
  bool init;
  /// The shares that are drawn.
  bool validation_part;
  bool test_part;
};

std::unique_ptr<Task> TrainSettings::complete(CLI::App& command, bool may_exist) {
  // Before a file is read, whose settings count as given from then on.
  const Typed typed = typed_on(command);
  if (resume && is_given(command, "--init-from")) {
    throw UsageError(
        "--init-from is where a training begins, and --resume goes on with one; expected one of the two");
  }
  read_files(command);
  if (!stack.empty()) check_beside_stack(command);
  complete_places();
  // 1. The task, whose data may take a minute to read: what can be refused before is refused now.
  const bool keeps_runs = command.get_option_no_throw("--out") != nullptr;
  if (keeps_runs && !may_exist) check_run_is_new();
  std::unique_ptr<Task> described = make_task_of_run(may_exist);
  // 2. What is still open.
  check_typed(typed);  // before the recipe, which may read the data
  check_frames(*described, may_exist);
  Recipe recipe = recipe_for(*described, recurrences_of_parts(),
                             is_given(command, "--hidden") || !stack.empty() ? hidden_size() : 0);
  const bool has_points = has_stiefel_points(stack.empty() ? recurrences_of_parts() : stack);
  if (!stack.empty()) recipe = recipe_for_points(*described, stack, recipe);
  if (!is_given(command, "--optimizer")) optimizer.name = recipe.optimizer;
  check_of_optimizer(typed, has_points);
  if (positions > 0) check_positions(*described);
  if (typed.init) check_init();
  complete_model(command, *described, recipe);
  if (!is_given(command, "--batch") && source.batch != recipe.batch) {
    source.batch = recipe.batch;
    described = make_task();
  }
  complete_optimizers(command, recipe, typed.new_rate);
  complete_intervals(command, *described, recipe);
  complete_steps(command, *described, recipe);
  // A benchmark takes the first steps alone, and they are to be of the whole length.
  if (keeps_runs && complete_curriculum(command, recipe.curriculum_share)) described = make_task();
  complete_warmup(command, recipe);
  check_reflections();
  trainer.optimizer = optimizer.chosen();
  if (!stack.empty()) check_stack(*described);
  return described;
}

TrainSettings::Typed TrainSettings::typed_on(const CLI::App& command) const {
  Typed typed{.owned = {},
              .new_rate = is_given(command, "--lr") && !is_given(command, "--lr-orth"),
              .orthogonal_rate = is_given(command, "--lr-orth"),
              .optimizer = is_given(command, "--optimizer"),
              .mlp_size = is_given(command, "--mlp-size"),
              .permutation_seed = is_given(command, "--permutation-seed"),
              .init = is_given(command, "--init"),
              .validation_part = is_given(command, "--validation-part"),
              .test_part = is_given(command, "--test-part")};
  for (const OwnedOption& own : owned_) {
    if (own.option->count() > 0) typed.owned.push_back(&own);
  }
  return typed;
}

void TrainSettings::read_files(CLI::App& command) {
  if (!config.empty() && read_config(command, config))
    note(fmt::format("'out' in {} is ignored; only --out says where a run is kept", config));
  if (!config.empty()) stack = layers_in(config);
  if (!resume) return;
  read_run(command);
  check_resumed(command);
}

void TrainSettings::read_run(CLI::App& command) {
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

void TrainSettings::check_resumed(CLI::App& command) const {
  if (!SavedTraining(out).exists()) return;  // without a model it starts anew
  const auto of_run = settings_in((std::filesystem::path(out) / "config.toml").string());
  const auto here = settings_of(config_text(command));
  const Json empty = "";
  const auto text = [&](const auto& value) {
    return value == empty ? "''" : value.is_string() ? value.template get<std::string>() : value.dump();
  };
  for (const CLI::Option* option : command.get_options()) {
    const std::string key = option->get_single_name(), group = option->get_group();
    const bool stays = (group == task_group && !is_data_key(key)) || group == model_group || key == "batch" ||
                       key == "accumulate" || key == "seed" || key == "optimizer";
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
        "model, batches, seed and optimizer; leave out {0}, or begin a training with another --out",
        flag, text(now), out, found));
  }
}

void TrainSettings::check_beside_stack(const CLI::App& command) const {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != model_group || option->count() == 0) continue;
    throw UsageError(fmt::format("'{}' and [[layer]] tables both describe the model; expected one of them",
                                 option->get_single_name()));
  }
}

void TrainSettings::complete_places() {
  if (task.name.empty()) throw UsageError(fmt::format("which task? expected {}", one_of(task_names())));
  if (files.data.empty()) files.data = usual_data(task.chosen());
  for (std::string* place : {&files.data, &files.validation, &files.test, &init_from}) {
    if (!place->empty()) *place = place_for_config(*place);
  }
  if (!stack.empty() && is_translation(task.name)) {
    throw UsageError(fmt::format(
        "[[layer]] tables describe a model of one sequence, and the task {} has two; use --cell and --layers",
        task.name));
  }
  if (positions > 0 && is_translation(task.name)) {
    throw UsageError(fmt::format(
        "--positions is of models of one sequence, and the task {} has two; leave it out", task.name));
  }
  if (out.empty()) out = fmt::format("runs/{}-{}", task.name, cell_name());
}

void TrainSettings::check_run_is_new() const {
  if (resume || !SavedTraining(out).exists()) return;
  throw FileError(fmt::format(
      "'{}' holds a trained model already: go on with it by --resume, or choose another --out", out));
}

std::unique_ptr<Task> TrainSettings::make_task_of_run(bool may_exist) {
  std::unique_ptr<Task> described = make_task();
  const SavedTraining saved(out);
  if (!(resume || may_exist) || !saved.exists()) return described;
  source.parts = saved.parts_of(*described);
  return make_task();
}

void TrainSettings::check_typed(const Typed& typed) const {
  for (const OwnedOption* own : typed.owned) {
    if (!own->is_of("--optimizer")) own->check();
  }
  if (typed.mlp_size && no_mlp)
    throw UsageError("--mlp-size is the size of the MLP, which --no-mlp leaves out; expected one of the two");
  if (typed.orthogonal_rate && stack.empty() &&
      names_of_parts() == std::vector<std::string>{ConvNeru::name} && is_free(conv_neru.hidden_kernel)) {
    throw UsageError(
        fmt::format("--lr-orth is the rate of orthogonal parameters, and --hidden-kernel {} is a free "
                    "kernel, whose rate is --lr; leave it out",
                    name_of(conv_neru.hidden_kernel)));
  }
  if (typed.permutation_seed && !std::get<MnistOptions>(task.all).permuted)
    throw UsageError("--permutation-seed decides the order of --permuted, which was not given");
  for (const auto& [given, place, name] : {std::tuple{typed.validation_part, &files.validation, "validation"},
                                           {typed.test_part, &files.test, "test"}}) {
    if (!given || place->empty()) continue;
    throw UsageError(fmt::format(
        "--{0}-part is drawn from --data, and --{0} names a file; expected one of the two", name));
  }
}

void TrainSettings::check_of_optimizer(const Typed& typed, bool has_points) const {
  const auto check_points = [&](const std::string& given, const std::string& flag) {
    if (has_points) return;
    throw UsageError(
        fmt::format("{} is of points of Stiefel manifolds, of which this model has none; expected --cell, "
                    "--input-matrix or --hidden-kernel matrix or a [[layer]] with one, or leave {} out",
                    given, flag));
  };
  for (const OwnedOption* own : typed.owned) {
    if (!own->is_of("--optimizer")) continue;
    own->check();
    const std::string name = own->option->get_name();
    if (name == "--metric" || name == "--retraction") check_points(name, name);
  }
  const bool is_riemannian = std::visit(
      [](const auto& chosen) {
        return requires { chosen.retraction; };
      },
      optimizer.chosen());
  // In a file it stays in force with every cell, as the rates do.
  if (typed.optimizer && is_riemannian) check_points("--optimizer " + optimizer.name, "--optimizer");
}

void TrainSettings::check_positions(const Task& described) const {
  if (positions < described.length()) {
    throw UsageError(
        fmt::format("--positions {} are fewer than the {} steps of the task's sequences; expected "
                    "as many or more, or 0",
                    positions, described.length()));
  }
}

void TrainSettings::check_frames(const Task& described, bool resumes) const {
  const std::vector<std::string> parts = names_of_parts();
  const SequenceData data = described.data();
  const auto refuse = [&](const char* what, const char* name) {
    throw UsageError(fmt::format("the {} {} reads frames, and the task {} has none; expected the task {}",
                                 what, name, task.name, VideoOptions::name));
  };
  // At every pixel a part of such a kernel would lie beyond the frame, where it sees zeros. A training that
  // began with one goes on.
  const auto check_kernel = [&](const std::string& named, Index size) {
    const Index least = std::min(data.height, data.width);
    if (size <= least || resumes) return;
    const char* beyond = size <= data.width ? "rows" : size <= data.height ? "columns" : "rows and columns";
    throw UsageError(
        fmt::format("{0} makes kernels of {1} x {1}, which have more {2} than the frames of {3} x {4} of the "
                    "task {5}; expected an odd number up to {6}",
                    named, size, beyond, data.height, data.width, task.name, (least - 1) | 1));
  };
  const auto check = [&](const auto& layer) {
    if constexpr (requires { layer.height, layer.width; }) {
      if (data.height == 0) refuse("layer", layer.name);
      if (layer.height == data.height && layer.width == data.width)
        return check_kernel(fmt::format("kernel_size {} of a layer {}", layer.kernel_size, layer.name),
                            layer.kernel_size);
      throw UsageError(
          fmt::format("a layer {} has frames of {} x {}; expected height = {} and width = {}, as the "
                      "task {} has",
                      layer.name, layer.height, layer.width, data.height, data.width, task.name));
    }
  };
  each_layer(stack, [&](const LayerOptions& layer) { std::visit(check, layer); });
  if (!stack.empty()) return;
  for (const char* name : {ConvNeru::name, ConvLstm::name}) {
    if (std::ranges::find(parts, name) == parts.end()) continue;
    if (data.height == 0) refuse("cell", name);
    check_kernel(fmt::format("--kernel-size {}", conv_neru.kernel_size), conv_neru.kernel_size);
  }
}

void TrainSettings::check_init() const {
  const std::vector<std::string> parts = names_of_parts();
  const bool has_transition = std::ranges::any_of(
      parts, [](const std::string& name) { return find_name<TransitionOptions>(name).has_value(); });
  if (init == exact_init ? !is_delta() : !has_transition) {
    throw UsageError(fmt::format("--init {} was given with --cell {}; expected {}", init, transition.name,
                                 is_delta() ? "exact, or none" : one_of(names_of<Init>())));
  }
}

void TrainSettings::complete_model(const CLI::App& command, const Task& described, const Recipe& recipe) {
  if (!is_given(command, "--hidden")) cell.hidden_size = recipe.hidden_size;
  if (const SequenceData data = described.data(); data.height > 0) {
    conv_neru.height = data.height;
    conv_neru.width = data.width;
  }
  if (!is_given(command, "--activation")) cell.activation = recipe.activation;
  // A file may have that of another cell.
  const Init initial_transition = find_name<Init>(init).value_or(recipe.init);
  transition.each([&](auto& options) { options.init = initial_transition; });
  if (is_exact()) {
    complete_exact(command, described);
    return;
  }
  // What the settings of a begun training lack, they are older than.
  if (!resume) complete_delta(command, recipe);
  init = name_of(initial_transition);
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
  const auto take = [&](const char* flag, Index& value, Index least, const std::string& way_out = "") {
    if (!is_given(command, flag)) value = least;
    if (value < least) {
      throw UsageError(fmt::format("--init exact needs {} {} or more for this task with {}; found {}{}", flag,
                                   least, quantity(layers, "layer"), value, way_out));
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
  } else if (!is_given(command, "--mlp-size")) {
    no_mlp = true;
  }
  if (!is_given(command, "--readout-norm")) delta.readout_norm = ReadoutNorm::none;
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
      {"--init-from", !init_from.empty()},
      {"--no-mlp", no_mlp && network.mlp()}};
  for (const auto& [flag, differs] : others) {
    if (differs)
      throw UsageError(
          fmt::format("--init exact was given with {}, with which no weights are known; leave it out", flag));
  }
}

void TrainSettings::complete_delta(const CLI::App& command, const Recipe& recipe) {
  DeltaProductCell::fields([&](const char* key, auto member, const Domain&, const char*) {
    if (std::string(key) != "hidden_size" && !is_given(command, flag_of(key).flag.c_str()))
      delta.*member = recipe.delta.*member;
  });
  if (is_delta() && !is_given(command, "--learn-initial-state"))
    cell.learn_initial_state = recipe.delta.learn_initial_state;
  if (!is_given(command, "--without-values")) delta.without_values &= cell.learn_initial_state;
  if (!is_given(command, "--no-mlp") && !is_given(command, "--mlp-size")) no_mlp = !recipe.gated_mlp;
}

void TrainSettings::complete_optimizers(const CLI::App& command, const Recipe& recipe, bool new_rate) {
  optimizer.each([&](auto& options) {
    if (!is_given(command, "--lr")) options.lr = recipe.learning_rate;
    // A rate on the command line takes the orthogonal one along, which a file states even where it was left
    // out.
    if (!is_given(command, "--lr-orth") || new_rate)
      options.lr_orthogonal = options.lr * recipe.learning_rate_orthogonal / recipe.learning_rate;
  });
  AdamW& decoupled = std::get<AdamW>(optimizer.all);
  // What is exact must not shrink.
  if (!is_given(command, "--weight-decay") && recipe.weight_decay && !is_exact())
    decoupled.weight_decay = *recipe.weight_decay;
  if (!is_given(command, "--clip")) trainer.clip = recipe.clip;
}

void TrainSettings::complete_intervals(const CLI::App& command, const Task& described, const Recipe& recipe) {
  if (!is_given(command, "--eval-every")) {
    eval_every =
        recipe.epochs > 0 ? std::llround(steps_of_epochs(described, 1).value()) : recipe.evaluation_steps;
  }
  if (!is_given(command, "--save-every")) save_every = eval_every;
}

void TrainSettings::complete_steps(const CLI::App& command, const Task& described, const Recipe& recipe) {
  if (is_given(command, "--epochs")) {
    const std::optional<double> exact = steps_of_epochs(described, epochs);
    if (!exact) {
      throw UsageError(
          fmt::format("the task {} has no epochs: every batch is drawn anew; use --steps", task.name));
    }
    if (!(*exact < 1e15))
      throw UsageError(fmt::format("--epochs {} are {:.3g} steps; expected below 1e15", epochs, *exact));
    trainer.schedule.total_steps = std::llround(*exact);
  } else if (!is_given(command, "--steps")) {
    const bool takes_none = is_exact() && command.get_option_no_throw("--out") != nullptr;
    const auto usual = static_cast<double>(recipe.epochs);
    trainer.schedule.total_steps = takes_none          ? 0
                                   : recipe.epochs > 0 ? std::llround(*steps_of_epochs(described, usual))
                                                       : recipe.steps;
  }
  if (steps() == 0 && !is_exact())
    throw UsageError(
        "--steps 0 trains nothing; expected 1 or more, or --init exact, which needs no training");
}

bool TrainSettings::complete_curriculum(const CLI::App& command, double share) {
  // What is exact needs no short sequences.
  if (is_given(command, "--curriculum") || is_exact()) return false;
  // A task knows the numbers of batches alone.
  const auto of_stage =
      static_cast<Index>(share * static_cast<double>(steps()) * static_cast<double>(trainer.accumulate));
  bool changes = false;
  task.each([&](auto& options) {
    if constexpr (requires { options.curriculum; }) {
      changes |= options.name == task.name && options.curriculum != of_stage;
      options.curriculum = of_stage;
    }
  });
  return changes;
}

void TrainSettings::complete_warmup(const CLI::App& command, const Recipe& recipe) {
  Schedule& schedule = trainer.schedule;
  if (!is_given(command, "--warmup"))
    schedule.warmup_steps = static_cast<std::int64_t>(recipe.warmup_share * static_cast<double>(steps()));
  if (schedule.kind == Schedule::Kind::cosine && steps() > 0 && schedule.warmup_steps >= steps()) {
    throw UsageError(fmt::format(
        "--warmup {} (given, or of the configuration file) leaves nothing of --steps {}; expected fewer",
        schedule.warmup_steps, steps()));
  }
}

void TrainSettings::check_reflections() const {
  for (const LayerOptions& chosen : recurrences_of_parts()) {
    const Index* reflections = reflections_of(chosen);
    if (stack.empty() && reflections != nullptr && *reflections > cell.hidden_size) {
      throw UsageError(
          fmt::format("--reflections {} is more than --hidden {}", *reflections, cell.hidden_size));
    }
  }
}

void TrainSettings::check_stack(const Task& described) const {
  try {
    check_sizes(model_options(described));
  } catch (const Error& error) {
    throw UsageError(fmt::format("[[layer]] tables: {}", error.what()));
  }
  if (const std::optional<Index> most = fewest_positions(stack); most && *most < described.length()) {
    throw UsageError(
        fmt::format("[[layer]] tables: a layer of positions for {} steps, and the task's sequences have "
                    "{}; expected as many or more",
                    *most, described.length()));
  }
}

}  // namespace orthornn::program
