#pragma once

#include <memory>
#include <string>

#include "commands/program.hpp"

namespace orthornn::program {

/// Every option of `orthornn train`, bound to the command line and to config.toml.
struct TrainSettings {
  std::string task;
  // task
  Index delay = 1000;
  Index length = 200;
  bool permuted = false;
  std::uint64_t permutation_seed = 92916;
  std::string data = "data/mnist";
  // model
  std::string cell = "cwy";
  Index hidden = 0;
  Index reflections = 0;
  Index layers = 1;
  std::string activation = "modrelu";
  std::string init;
  std::string form = "automatic";
  std::string input_matrix = "free";
  Index negative_signs = 0;
  bool learn_initial_state = false;
  // training
  Index batch = 0;
  std::int64_t steps = 0;
  double epochs = 0;
  std::string optimizer;
  double lr = 0;
  double lr_orth = 0;
  double momentum = 0.9;
  double rmsprop_decay = RmsProp{}.decay;
  double beta1 = Adam{}.beta1;
  double beta2 = Adam{}.beta2;
  double epsilon = Adam{}.epsilon;
  double weight_decay = 0;
  double clip = 0;
  std::string schedule = "cosine";
  std::int64_t warmup = 0;
  std::int64_t schedule_every = 1000;
  double schedule_factor = 0.5;
  double schedule_final = 0;
  std::uint64_t seed = 1;
  bool until_solved = false;
  // run
  MachineOptions machine;
  bool verbose = false;
  std::string out;
  bool resume = false;
  std::int64_t log_every = 50;
  std::int64_t eval_every = 0;
  std::int64_t save_every = 0;
  std::string config;

  /// Every option.
  void add_to(CLI::App& command);
  /// Those that decide what a training step computes: task, model, batch, optimizer and seed.
  void add_workload_to(CLI::App& command);
  /// Reads the configuration file (that of the run when resuming), and gives what is still open the defaults
  /// of task and cell. Returns the task that they describe.
  std::unique_ptr<Task> complete(CLI::App& command);
  /// The settings as a TOML file that `--config` takes.
  std::string to_toml(const CLI::App& command) const;

  std::unique_ptr<Task> make_task() const;
  ModelOptions model_options(const Task& task) const;
  TrainerOptions trainer_options() const;
};

}  // namespace orthornn::program
