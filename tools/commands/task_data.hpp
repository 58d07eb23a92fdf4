#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/task_options.hpp"

namespace orthornn::program {

/// Names of the tasks that read files.
std::vector<std::string> tasks_with_data();
/// Where `tools/fetch-data` puts the data of a task; "" for a task that reads none, or a user's own.
std::string usual_data(const TaskOptions& task);
/// What `predict` reads for a model of the task alone (Task::own_inputs), as messages name it; "" for others.
std::string own_forms(const TaskOptions& task);

/// Places of a task's data, as `--data`, `--validation` and `--test` name them; "" where one is left out.
struct DataFiles {
  std::string data = {};
  std::string validation = {};
  std::string test = {};

  /// Sets those of a source.
  void add_to(TaskSource& source) const {
    source.data = data;
    source.validation_data = validation;
    source.test_data = test;
  }
};
/// Whether a setting of this name is a place, which may change from one command to the next.
bool is_data_key(const std::string& key);

/// Where the data of a model's task are looked for.
struct DataPlace {
  DataFiles files;
  /// What says so, for a message where they are not there; "" for a place that the user gave.
  std::string reason;

  /// What `read` returns. Its FileError gets the reason for the place.
  template <class Read>
  auto with_reason(const Read& read) const {
    try {
      return read();
    } catch (const FileError& error) {
      if (reason.empty()) throw;
      throw FileError(fmt::format("{}; {}", error.what(), reason));
    }
  }
};

/// Each that is `given`; else what the config.toml beside the model names, where this is a regular file of a
/// training on the task; else the usual place. The model file itself names no place: it may come from a
/// stranger.
DataPlace data_place(const DataFiles& given, const std::string& model_file, const TaskOptions& task);

}  // namespace orthornn::program
