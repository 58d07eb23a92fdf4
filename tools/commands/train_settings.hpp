#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "commands/field_options.hpp"
#include "commands/program.hpp"
#include "commands/task_data.hpp"
#include "orthornn/layers/recurrent_layer.hpp"
#include "orthornn/nn/exact_network.hpp"
#include "orthornn/train/model_file.hpp"
#include "orthornn/train/recipe.hpp"

namespace orthornn::program {

/// What --cell may say.
std::vector<std::string> cell_names();

/// --init of --cell deltaproduct: parameters that solve the task without training.
inline constexpr const char* exact_init = "exact";

/// Every option of `orthornn train`, bound to the command line and to config.toml. It must not move after it
/// is.
struct TrainSettings {
  Alternatives<TaskOptions> task;
  TaskSource source;
  /// Its data is empty until `complete`.
  DataFiles files;
  // model
  /// `name` is what --cell says: the transition of an orthogonal cell, or another kind of recurrent layer.
  Alternatives<TransitionOptions> transition{.name = Cwy::name};
  /// What --init says: the initial transition of an orthogonal cell, or `exact_init`. Empty until `complete`.
  std::string init;
  OrthogonalCell cell;
  /// Of --cell deltaproduct: all but the hidden size, which is that of `cell`.
  DeltaProductCell delta;
  /// Of --cell convneru: all but the hidden size, which is that of `cell`. Its frames are those of the task.
  /// --cell convlstm has the same frames and kernel size.
  ConvNeru conv_neru;
  /// Of --cell convlstm.
  bool peepholes = false;
  GatedMlp mlp;
  bool no_mlp = false;
  /// Of what a block's parts add; 0 for none.
  double block_dropout = 0;
  /// Steps that have learned vectors; 0 for none.
  Index positions = 0;
  Index layers = 1;
  /// What --encoder says, as --cell; empty where it is left out.
  std::string encoder;
  /// Of the task translate: all but the numbers of symbols and the layers.
  EncoderDecoderOptions translation;
  bool bidirectional = false;
  /// The [[layer]] tables of config.toml, in place of --cell and --layers.
  std::vector<LayerOptions> stack;
  // training
  Alternatives<OptimizerOptions> optimizer;
  TrainerOptions trainer{
      // `complete` sets its optimizer
      .schedule = {.kind = Schedule::Kind::cosine, .step_every = 1000, .step_factor = 0.5}};
  double epochs = 0;
  bool until_solved = false;
  /// Evaluations in a row without a better validation loss that end the training; 0 for none.
  Index patience = 0;
  /// Model file that parameters are taken from; empty for none.
  std::string init_from;
  // run
  MachineOptions machine;
  bool verbose = false;
  std::string out;
  bool resume = false;
  bool tensorboard = false;
  std::int64_t log_every = 50;
  std::int64_t eval_every = 0;
  std::int64_t save_every = 0;
  std::string config;

  TrainSettings() { std::get<Sgd>(optimizer.all).momentum = std::get<Rgd>(optimizer.all).momentum = 0.9; }

  /// Every option.
  void add_to(CLI::App& command);
  /// Takes options away again, for a command that decides them itself.
  void remove(CLI::App& command, const std::vector<std::string>& names);
  /// ... and those that only other tasks have.
  void remove_other_tasks(CLI::App& command, const std::string& kept);
  /// Those that decide what a training step computes: task, model, batch, optimizer and seed.
  void add_workload_to(CLI::App& command);
  /// Reads the configuration file (that of the run when resuming), and gives what is still open the defaults
  /// of task and cell. Returns the task that they describe. Throws FileError for a run directory with a
  /// trained model that is not resumed, unless `may_exist`: the caller decides then whether to resume.
  std::unique_ptr<Task> complete(CLI::App& command, bool may_exist = false);
  /// The settings as a TOML file that `--config` takes.
  std::string to_toml(CLI::App& command) const;

  /// Whether a training with --cell NAME, and the encoder of these settings, takes the option.
  bool takes(const CLI::Option& option, const std::string& name) const;
  std::int64_t steps() const { return trainer.schedule.total_steps; }
  /// Steps of so many passes over the task's data, at least 1; nothing for a task without epochs.
  std::optional<double> steps_of_epochs(const Task& described, double passes) const;
  std::unique_ptr<Task> make_task() const;
  /// The recurrent layer that --cell and the options of the model describe, or the first of the stack.
  LayerOptions recurrent() const;
  /// ... with that of the encoder, where it is another one.
  std::vector<LayerOptions> recurrences_of_parts() const;
  /// N of `recurrent`.
  Index hidden_size() const { return output_size_of(recurrent(), 1); }
  /// What --cell says, or "layers" of a stack.
  std::string cell_name() const { return stack.empty() ? transition.name : "layers"; }
  /// ... with what --encoder says, where that is something else: "cwy, encoder deltaproduct".
  std::string cell_text() const;
  /// Of the model for a task that is loaded.
  AnyModelOptions model_options(const Task& task) const;
  /// Whose parameters the model begins with; none without --init exact.
  std::optional<ExactNetwork> exact_network(const Task& task) const;

 private:
  /// Which options the command line itself gives.
  struct Typed;
  /// Groups of the options that describe the task and the model.
  static constexpr const char *task_group = "Task", *model_group = "Model";

  void add_task_options(CLI::App& command);
  void add_cell_options(CLI::App& command);
  void add_delta_options(CLI::App& command);
  void add_frame_options(CLI::App& command);
  void add_translation_options(CLI::App& command);
  void add_run_options(CLI::App& command);

  /// By the names of --cell.
  LayerOptions recurrent(const std::string& name) const;
  /// Layers that read so many numbers, with --layers of these cells.
  std::vector<LayerOptions> layers_of(const std::string& name, Index input_size) const;
  /// Of an encoder; that of --cell unless --encoder is given, for the task that has one.
  std::string encoder_name() const;
  /// Of decoder and encoder.
  std::vector<std::string> names_of_parts() const;
  bool is_delta() const { return transition.name == DeltaProductCell::name; }
  bool is_exact() const { return is_delta() && stack.empty() && init == exact_init; }
  EncoderDecoderOptions translation_options(const SequenceData& of_task) const;
  /// The word problem that the task is, for --init exact. Throws ValueError where it is none.
  GroupWords exact_words(const Task& task) const;

  // Steps of `complete`, in its order. A check throws UsageError, unless it says otherwise.
  Typed typed_on(const CLI::App& command) const;
  /// --config, and where --resume is given the file of the run.
  void read_files(CLI::App& command);
  /// Finds the run to resume. Reads its settings where there is no --config. Throws FileError for a folder
  /// without a run, and UsageError for a run of another task or where no folder was named.
  void read_run(CLI::App& command);
  /// Throws for settings of task, model, batches, seed and optimizer that are not those of the training in
  /// the run directory.
  void check_resumed(CLI::App& command) const;
  /// Throws for options of the model, which a stack describes.
  void check_beside_stack(const CLI::App& command) const;
  /// The places of files: `files`, `init_from` and `out`, which follow from the task. Throws UsageError where
  /// there is none, or none that a stack can learn.
  void complete_places();
  /// Throws FileError for a run directory with a trained model that is not resumed.
  void check_run_is_new() const;
  /// With the parts that a saved training goes on with.
  std::unique_ptr<Task> make_task_of_run(bool may_exist);
  /// Throws for options of which nothing would come.
  void check_typed(const Typed& typed) const;
  /// The same of an optimizer that was not given, which is known later.
  void check_of_optimizer(const Typed& typed, bool has_points) const;
  void check_positions(const Task& described) const;
  /// Throws for cells of frames and a task without frames, and for kernels that are larger than the frames,
  /// unless a training with one is resumed.
  void check_frames(const Task& described, bool resumes) const;
  void check_init() const;
  void complete_model(const CLI::App& command, const Task& described, const Recipe& recipe);
  /// Gives --init exact the sizes that it needs, where they are open. Throws UsageError for settings with
  /// which it cannot be.
  void complete_exact(const CLI::App& command, const Task& task);
  /// Settings of DeltaProduct blocks that were left out.
  void complete_delta(const CLI::App& command, const Recipe& recipe);
  /// Rates, weight decay and clipping.
  void complete_optimizers(const CLI::App& command, const Recipe& recipe, bool new_rate);
  /// Steps between evaluations, and between saves.
  void complete_intervals(const CLI::App& command, const Task& described, const Recipe& recipe);
  /// From --epochs or --steps, or else those of the recipe. Throws UsageError for numbers that cannot be.
  void complete_steps(const CLI::App& command, const Task& described, const Recipe& recipe);
  /// Returns whether that changes the task.
  bool complete_curriculum(const CLI::App& command, double share);
  /// Throws UsageError where the warmup leaves nothing of the steps.
  void complete_warmup(const CLI::App& command, const Recipe& recipe);
  void check_reflections() const;
  void check_stack(const Task& described) const;

  std::list<OwnedOption> owned_;
};

}  // namespace orthornn::program
