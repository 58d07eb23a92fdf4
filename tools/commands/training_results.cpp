#include "commands/training_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "commands/program.hpp"
#include "commands/run_files.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/version.hpp"
#include "support/files.hpp"
#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

constexpr const char* one_format = "orthornn-results";
constexpr const char* seeds_format = "orthornn-seeds-results";
constexpr Index results_version = 1;

Json head_of(const char* format) {
  return {{"format", format}, {"format_version", results_version}, {"library_version", version()}};
}

std::string results_text(const Json& json) { return json_text(json) + "\n"; }

Json json_of_evaluation(const Evaluation& evaluation) {
  Json json = {{"loss", evaluation.loss}};
  add_metrics(json, evaluation);
  return json;
}

Json json_of_tested(const TestedModel& tested) {
  Json json = Json::object();
  if (!tested.model.empty()) json["model"] = tested.model;
  json["step"] = tested.step;
  json.update(json_of_evaluation(tested.evaluation));
  return json;
}

/// What each of several seeds has of its own.
void add_figures(Json& json, const TrainingResults& results) {
  json["steps"] = results.steps;
  if (!results.ended_by.empty()) json["ended_by"] = results.ended_by;
  json["solved"] = results.solved;
  json["seconds"] = results.seconds;
  json["baseline"] = results.baseline;
  if (results.parameters) json["parameters"] = *results.parameters;
  json["validation"] = json_of_evaluation(results.validation);
  json["test"] = {{"last", json_of_tested(results.last)}};
  if (results.best) json["test"]["best"] = json_of_tested(*results.best);
  if (!results.translations.is_null()) json["translations"] = results.translations;
}

Json json_of_metrics(const Evaluation& evaluation) {
  Json json = Json::array();
  for (const auto& [metric, value] : evaluation.metrics)
    json.push_back({{"name", metric.name}, {"title", metric.title}, {"is_share", metric.is_share}});
  return json;
}

/// The metrics that a results.json tells of. One of a version that told of none has these two at most.
std::vector<Metric> metrics_from(const Json& json) {
  if (!json.contains("metrics")) return {Metric::accuracy(), Metric::sequence_accuracy()};
  std::vector<Metric> metrics;
  for (const Json& metric : array_member(json, "metrics"))
    metrics.push_back(
        {text_member(metric, "name"), text_member(metric, "title"), boolean_member(metric, "is_share")});
  return metrics;
}

Evaluation evaluation_from(const Json& json, const std::vector<Metric>& metrics) {
  Evaluation evaluation{.loss = real_member(json, "loss")};
  for (const Metric& metric : metrics) {
    if (json.contains(metric.name))
      evaluation.metrics.push_back({metric, real_member(json, metric.name.c_str())});
  }
  return evaluation;
}

TestedModel tested_from(const Json& json, const std::vector<Metric>& metrics) {
  return {json.contains("model") ? text_member(json, "model") : "", integer_member(json, "step"),
          evaluation_from(json, metrics)};
}

Json read_results(const std::filesystem::path& file) {
  check_regular(file);
  return parse_json(read_whole_file(file));
}

/// What `read` makes of the file's JSON, which has this format.
template <class Read>
auto results_from(const std::filesystem::path& file, const std::string& format, const Read& read) {
  try {
    const Json json = read_results(file);
    if (const std::string found = text_member(json, "format"); found != format)
      throw ValueError(fmt::format("its format is '{}', expected '{}'", printable(found), format));
    if (const Index found = integer_member(json, "format_version"); found != results_version)
      throw ValueError(fmt::format("its format version is {}, expected {}", found, results_version));
    return read(json);
  } catch (const ValueError& error) {
    throw FileError(fmt::format("'{}' is not what orthornn train writes: {}", file.string(), error.what()));
  }
}

Spread spread_of(const SeedsResults& results, const std::string& name, const auto& number) {
  std::vector<double> values;
  for (const auto& [folder, training] : results.trainings) values.push_back(number(training));
  return {.name = name, .mean = mean(values), .deviation = deviation(values), .median = median(values)};
}

}  // namespace

void add_metrics(Json& json, const Evaluation& evaluation) {
  for (const auto& [metric, value] : evaluation.metrics) {
    if (std::isfinite(value)) json[metric.name] = value;
  }
}

std::string to_json(const TrainingResults& results) {
  Json json = head_of(one_format);
  json.update(results.origin);
  json["task"] = results.task;
  json["seed"] = results.seed;
  json["metrics"] = json_of_metrics(results.validation);
  add_figures(json, results);
  return results_text(json);
}

std::vector<Spread> spreads_of(const SeedsResults& results) {
  if (results.trainings.empty()) return {};
  const auto tested = [](const TrainingResults& training) -> const Evaluation& {
    return training.best_or_last().evaluation;
  };
  const Evaluation& first = tested(results.trainings.front().second);
  std::vector<Spread> spreads = {
      spread_of(results, "loss", [&](const TrainingResults& training) { return tested(training).loss; })};
  for (const MetricValue& found : first.metrics) {
    const std::string& name = found.metric.name;
    const bool all_have_it = std::ranges::all_of(
        results.trainings, [&](const auto& named) { return tested(named.second).metric(name).has_value(); });
    if (!all_have_it) continue;
    spreads.push_back(spread_of(
        results, name, [&](const TrainingResults& training) { return *tested(training).metric(name); }));
  }
  spreads.push_back(spread_of(
      results, "steps", [](const TrainingResults& training) { return static_cast<double>(training.steps); }));
  return spreads;
}

std::string to_json(const SeedsResults& results) {
  Json json = head_of(seeds_format);
  if (!results.trainings.empty()) {
    const TrainingResults& first = results.trainings.front().second;
    json.update(first.origin);
    json["task"] = first.task;
  }
  json["trainings"] = Json::array();
  for (const auto& [folder, training] : results.trainings) {
    Json& row = json["trainings"].emplace_back(Json{{"folder", folder}, {"seed", training.seed}});
    add_figures(row, training);
  }
  json["failed"] = Json::array();
  for (const auto& [seed, why] : results.failed) json["failed"].push_back({{"seed", seed}, {"why", why}});
  json["spread"] = Json::array();
  for (const Spread& spread : spreads_of(results)) {
    json["spread"].push_back({{"of", spread.name},
                              {"mean", spread.mean},
                              {"standard_deviation", spread.deviation},
                              {"median", spread.median}});
  }
  return results_text(json);
}

Json origin_in(const std::filesystem::path& file) {
  const Json results = read_results(file);
  Json origin = Json::object();
  for (const char* key : {"command", "machine", "git_commit"}) {
    if (results.contains(key)) origin[key] = results[key];
  }
  return origin;
}

TrainingResults read_training_results(const std::filesystem::path& file) {
  return results_from(file, one_format, [](const Json& json) {
    const Json& test = object_member(json, "test");
    const std::vector<Metric> metrics = metrics_from(json);
    TrainingResults results{.task = object_member(json, "task"),
                            .seed = unsigned_member(json, "seed"),
                            .steps = integer_member(json, "steps"),
                            .solved = boolean_member(json, "solved"),
                            .seconds = real_member(json, "seconds"),
                            .baseline = real_member(json, "baseline"),
                            .validation = evaluation_from(object_member(json, "validation"), metrics),
                            .last = tested_from(object_member(test, "last"), metrics)};
    if (json.contains("ended_by")) results.ended_by = text_member(json, "ended_by");
    if (json.contains("parameters")) results.parameters = integer_member(json, "parameters");
    if (test.contains("best")) results.best = tested_from(object_member(test, "best"), metrics);
    if (json.contains("translations")) results.translations = object_member(json, "translations");
    return results;
  });
}

std::vector<Spread> read_spreads(const std::filesystem::path& file) {
  return results_from(file, seeds_format, [](const Json& json) {
    std::vector<Spread> spreads;
    for (const Json& row : array_member(json, "spread")) {
      spreads.push_back({text_member(row, "of"), real_member(row, "mean"),
                         real_member(row, "standard_deviation"), real_member(row, "median")});
    }
    return spreads;
  });
}

void check_replaceable_results(const std::filesystem::path& file, ResultsOf kind) {
  std::error_code status;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, status))) return;
  const auto is = [&](const Json& json, const char* format) {
    return json.is_object() && json.contains("format") && json["format"] == format;
  };
  const bool of_seeds = kind == ResultsOf::seeds;
  try {
    const Json json = read_results(file);
    if (is(json, of_seeds ? seeds_format : one_format)) return;
    if (is(json, of_seeds ? one_format : seeds_format)) {
      throw FileError(
          fmt::format("'{}' has the results of {}, and this would replace them; choose another --out",
                      file.string(), of_seeds ? "one training" : "several seeds"));
    }
  } catch (const ValueError&) {
  }
  refuse_foreign(file);
}

}  // namespace orthornn::program
