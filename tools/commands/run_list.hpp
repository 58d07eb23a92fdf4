#pragma once
// What `orthornn runs` finds in a folder of run directories.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "orthornn/core/shape.hpp"
#include "orthornn/tasks/metric.hpp"

namespace orthornn::program {

/// A run directory, or a folder that is none. What its files do not tell is empty.
struct ListedRun {
  std::filesystem::path folder;
  /// The path of the folder from the one that is listed, or its name where it is that itself.
  std::string name;
  std::string task = {};
  std::string cell = {};
  std::optional<Index> parameters = {};
  /// "running", "finished", "interrupted", or "unknown" for one without a model.
  std::string state = "unknown";
  /// Steps that are taken, and those that the settings ask for.
  std::optional<std::int64_t> steps = {}, wanted_steps = {};
  std::optional<double> best_validation_loss = {};
  /// Loss and the first metric of the task on test data, by the best model or else the last.
  std::optional<double> test_loss = {};
  std::optional<MetricValue> test_metric = {};
  /// What is missing or wrong.
  std::vector<std::string> notes = {};
};

/// The run directories in a folder and in the folders in it, in the order of their names; the folder itself
/// where it is one. Links are not followed. Damaged files become notes. Throws FileError for a folder that
/// cannot be read.
std::vector<ListedRun> runs_in(const std::filesystem::path& folder);

}  // namespace orthornn::program
