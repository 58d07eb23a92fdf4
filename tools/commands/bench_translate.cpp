// The comparison of cells on translation: one training each, and what it is worth on the test data.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands/bench_translate_runs.hpp"
#include "commands/bench_translate_table.hpp"
#include "commands/config_file.hpp"
#include "commands/machine.hpp"
#include "commands/output_file.hpp"
#include "commands/standard_streams.hpp"
#include "commands/unwritten_files.hpp"
#include "core/checked_json.hpp"
#include "orthornn/io/atomic_file.hpp"
#include "pages/scratch_folder.hpp"
#include "pages/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Before the data are read: a folder that cannot be made.
void check_out(const fs::path& folder) {
  std::error_code ignored;
  fs::path place = fs::absolute(folder, ignored);
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (access(place.c_str(), W_OK) == 0) return;
  throw FileError(fmt::format("cannot write in '{}': {}; choose another --out", place.string(),
                              std::generic_category().message(errno)));
}

/// What can be seen before the settings are complete.
void check_table(TableSettings& table) {
  // It has a say in which options there may be.
  if (TrainSettings& training = table.training; training.encoder.empty() && !training.config.empty())
    training.encoder = setting_in(training.config, "encoder");
  check_table_options(table);
  if (!table.json.empty()) check_output(table.json, OutputKind::results, table.overwrite);
  if (!table.out.empty()) check_out(table.out);
  if (!table.out.empty() || !table.json.empty()) go_on_without_output();
}

void print_head(const TableSettings& table, const TableRunSettings& any, std::size_t count) {
  const TrainSettings& settings = any.settings;
  const auto& pairs = dynamic_cast<const TranslationTask&>(*any.task);
  fmt::print(
      "translate {}: {} trainings of {} steps,{} {} batches an epoch, hidden size {}, batch {}, on {}\n",
      name_of(std::get<TranslationOptions>(settings.task.chosen()).direction), count, settings.steps(),
      settings.encoder.empty() ? "" : fmt::format(" encoder {},", settings.encoder),
      pairs.batches_per_epoch().value(), settings.hidden_size(), settings.source.batch,
      machine_text(settings.machine.apply(settings.source.batch)));
  fmt::print(
      "test data: {} sentences, by the model of the smallest validation loss; beam {}; padded: the "
      "perplexity\n"
      "if padding is counted as tutorials do; seconds: of the training, with validations and saves; sd: "
      "standard\n"
      "deviation over the seeds\n\n",
      pairs.held_out_pairs(HeldOut::test).size(), table.search.beam);
  print_table_titles();
}

/// Checks what all runs have in common, and the data, in a folder where no run is. Prints the head of the
/// table, and adds the machine to `result`.
std::vector<TableRun> begin_table(const TableSettings& table, Json& result) {
  const ScratchFolder nothing("the settings cannot be checked");
  TableRunSettings any(table, {table.cells.front(), 0, table.seeds.front()}, nothing.path() / "run");
  std::vector<TableRun> runs = table_runs(table, any);
  if (!table.out.empty()) check_run_folders(table, runs);
  as_usage([&] { any.task->load(); });
  if (const auto& pairs = dynamic_cast<const TranslationTask&>(*any.task); !pairs.left_out().empty())
    note(pairs.left_out());
  print_head(table, any, runs.size());
  result["machine"] = machine_fields(any.settings.machine.apply());
  return runs;
}

/// The rows that are done and have the cell and the reflections of `row`.
std::vector<const Json*> done_like(const Json& row, const Json& rows) {
  std::vector<const Json*> found;
  for (const Json& other : rows) {
    if (other["state"] == "done" && other["cell"] == row["cell"] &&
        other["reflections"] == row["reflections"])
      found.push_back(&other);
  }
  return found;
}

/// Adds the next row to `result`, and after the last seed of a cell their summary. Prints both.
void add_row(Json& result, const TableSettings& table, const std::vector<TableRun>& runs,
             const fs::path& folder) {
  const std::size_t i = result["rows"].size();
  const TableRun& run = runs[i];
  const Json& row = result["rows"].emplace_back(
      table_row(table, run, folder / run.name(), fmt::format("{}/{} {}  ", i + 1, runs.size(), run.name())));
  print_table_row(row);
  if (table.out.empty()) {
    std::error_code ignored;
    fs::remove_all(folder / run.name(), ignored);  // some runs of a table would fill a disk
  }
  const bool last_seed =
      i + 1 == runs.size() || runs[i + 1].cell != run.cell || runs[i + 1].reflections != run.reflections;
  const std::vector<const Json*> of_cell = done_like(row, result["rows"]);
  if (last_seed && of_cell.size() > 1)
    print_seeds_summary(result["summary"].emplace_back(seeds_summary(of_cell)));
}

/// Adds all rows. Throws Interrupted between them or within one, which is not added then.
void add_rows(Json& result, const TableSettings& table, const std::vector<TableRun>& runs,
              const fs::path& folder, UnwrittenFiles& unwritten) {
  while (result["rows"].size() < runs.size()) {
    leave_if_stop_requested();
    add_row(result, table, runs, folder);
    // Now, as the rest may be interrupted.
    if (!table.json.empty()) {
      unwritten.write(table.json, [&file = table.json, text = json_text(result) + "\n"] {
        write_file_atomically(file, text, SymbolicLinks::replaced);
      });
    }
  }
}

int bench_translate(TableSettings& table) {
  check_table(table);
  Json result = {{"benchmark", "translate"}, {"library_version", version()}};
  const std::vector<TableRun> runs = begin_table(table, result);
  result["rows"] = Json::array();
  result["summary"] = Json::array();

  const StopOnSignal stop_on_signal;
  std::optional<ScratchFolder> scratch;
  if (table.out.empty()) scratch.emplace("no training can be kept");
  UnwrittenFiles unwritten;
  try {
    add_rows(result, table, runs, scratch ? scratch->path() : fs::path(table.out), unwritten);
  } catch (const Interrupted&) {
    unwritten.try_again();
    return fail(interrupted,
                fmt::format("interrupted after {} of {} rows; {}{}", result["rows"].size(), runs.size(),
                            table.out.empty() ? "without --out no training is kept"
                                              : "the same command goes on from there",
                            unwritten.text().empty() ? "" : "; " + unwritten.text()));
  }
  unwritten.try_again();
  int code = success;
  if (const std::string lost = unwritten.text(); !lost.empty()) code = fail(failure, lost);
  const auto failed =
      std::ranges::count_if(result["rows"], [](const Json& row) { return row["state"] == "failed"; });
  if (failed > 0) code = fail(failure, fmt::format("{} of {} trainings failed", failed, runs.size()));
  return code;
}

}  // namespace

void add_bench_translate(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "translate", "Cells compared on translation: one training each, with perplexity, BLEU, chrF and time");
  const auto table = std::make_shared<TableSettings>();
  table->training.add_to(*command);
  table->training.remove_other_tasks(*command, TranslationOptions::name);
  table->training.remove(*command, {"task", "--cell", "--reflections", "--seed", "--until-solved", "--out",
                                    "--resume", "--verbose"});
  table->of_training = std::as_const(*command).get_options(
      [](const CLI::Option* option) { return option->get_name() != "--help"; });
  const char* g = "Table";
  command
      ->add_option("--cells", table->cells,
                   fmt::format("Cells in the order of the rows, with commas between: {}",
                               fmt::join(cell_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(cell_names()))
      ->group(g);
  table->of_reflections =
      command
          ->add_option(
              "--reflections", table->reflections,
              "Reflections L of cwy and householder: N or 0, shares as N/2, numbers up to N; with commas "
              "between")
          ->delimiter(',')
          ->check(reflection_count())
          ->group(g);
  command->add_option("--seeds", table->seeds, "Seeds of data and model, with commas between")
      ->delimiter(',')
      ->transform(seed_number())
      ->group(g);
  command
      ->add_option("--out", table->out,
                   "Folder that gets a run directory for each training; a table that was interrupted goes on "
                   "from there. Left out: no training is kept")
      ->group(g);
  command->add_option("--json", table->json, "File for all results and settings")->group(g);
  add_overwrite(*command, table->overwrite)->group(g);
  add_fields(*command, "Search", table->search);
  command->callback([&chosen, table] { chosen = [table] { return bench_translate(*table); }; });
}

}  // namespace orthornn::program
