#pragma once
// results.json: what trainings ended with.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/checked_json.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// In a run directory, and in a folder of several seeds.
inline constexpr const char* results_file = "results.json";

std::string to_json(const TrainingResults& results);
/// Adds the metrics to an object, each under its name. One that counted nothing is left out: JSON has no NaN.
void add_metrics(Json& json, const Evaluation& evaluation);

/// Trainings that differ in the seed alone.
struct SeedsResults {
  /// Each with the name of its run directory.
  std::vector<std::pair<std::string, TrainingResults>> trainings;
  /// Seeds whose trainings failed, and why.
  std::vector<std::pair<std::uint64_t, std::string>> failed;
};

/// Figures on test data, each training by its best model or else its last: loss, the metrics of the task, and
/// steps.
std::vector<Spread> spreads_of(const SeedsResults& results);
std::string to_json(const SeedsResults& results);

/// What results.json of a training says of how it was made, as origin_fields has it. Throws FileError.
Json origin_in(const std::filesystem::path& file);
/// Reads results.json of a run directory. Throws FileError for a file that is damaged or of another kind.
TrainingResults read_training_results(const std::filesystem::path& file);
/// The spreads in results.json of several seeds. Throws FileError as `read_training_results`.
std::vector<Spread> read_spreads(const std::filesystem::path& file);
/// Whether a results.json is that of one training or of several seeds.
enum class ResultsOf { training, seeds };
/// Throws FileError for a file that is there and is no results.json of this kind: it is not to be replaced.
void check_replaceable_results(const std::filesystem::path& file, ResultsOf kind);

}  // namespace orthornn::program
