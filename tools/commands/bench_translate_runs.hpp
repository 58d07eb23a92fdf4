#pragma once
// The trainings of `orthornn bench translate`: which ones a table has, and what each is worth.

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/train_settings.hpp"

namespace orthornn::program {

struct TableSettings {
  /// The options of `train`, as the command line has them. Each run has settings of its own.
  TrainSettings training;
  std::vector<const CLI::Option*> of_training = {};
  std::vector<std::string> cells = {"cwy", "lstm", "gru", "free", "cayley", "expm"};
  std::vector<std::string> reflections = {"N", "N/2", "N/4", "N/8"};
  const CLI::Option* of_reflections = nullptr;
  std::vector<std::uint64_t> seeds = {1};
  BeamSearchOptions search;
  std::string out;
  std::string json;
  bool overwrite = false;
};

/// One training of the table.
struct TableRun {
  std::string cell;
  /// 0 for cells without reflections.
  Index reflections;
  std::uint64_t seed;

  std::string name() const {
    return fmt::format("{}{}-seed{}", cell, reflections > 0 ? fmt::format("-{}", reflections) : "", seed);
  }
};

/// The settings of a training that the table's command line makes: those of `orthornn train translate` with
/// the same options. What only other cells have is left out.
struct TableRunSettings {
  TableRunSettings(const TableSettings& table, const TableRun& run, const std::filesystem::path& folder);

  CLI::App command;
  TrainSettings settings;
  std::unique_ptr<Task> task;
};

/// Throws UsageError for an option that no cell of the table has.
void check_table_options(const TableSettings& table);

/// Cells in their order, each with its numbers of reflections and with these all seeds; nothing twice. `any`
/// has what all runs have in common. Throws UsageError for reflections that are too many, or that no cell
/// takes.
std::vector<TableRun> table_runs(const TableSettings& table, const TableRunSettings& any);

/// Before hours of training: throws FileError for folders that cannot be used.
void check_run_folders(const TableSettings& table, const std::vector<TableRun>& runs);

/// Trains what is left to train in the run directory `folder`, and evaluates. `label` begins the line of the
/// progress. Where that fails, the row says why; an interruption throws Interrupted.
nlohmann::ordered_json table_row(const TableSettings& table, const TableRun& run,
                                 const std::filesystem::path& folder, const std::string& label);

}  // namespace orthornn::program
