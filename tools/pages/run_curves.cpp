#include "pages/run_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "support/statistics.hpp"

namespace orthornn::program {
namespace {

/// The whole path of a run without a slash at its end.
fs::path whole_path(const TrainingRun& run) {
  std::error_code unknown;
  const fs::path whole = fs::absolute(run.folder / "", unknown);
  return (unknown ? run.folder / "" : whole).lexically_normal().parent_path();
}

/// A folder of --seeds has the name of its trainings.
std::string name_of_seeds(const std::vector<const TrainingRun*>& runs) {
  const fs::path folder = whole_path(*runs.front()).parent_path();
  const bool is_folder_of_seeds = std::ranges::all_of(runs, [&](const TrainingRun* run) {
    return whole_path(*run) == folder / fmt::format("seed{}", run->seed);
  });
  if (!is_folder_of_seeds) return fmt::format("{} and {} more seeds", runs.front()->name, runs.size() - 1);
  return fmt::format("{}, {} seeds", folder.filename().string(), runs.size());
}

bool differ_in_seeds(const std::vector<const TrainingRun*>& runs) {
  std::set<std::uint64_t> seeds;
  for (const TrainingRun* run : runs) seeds.insert(run->seed);
  return seeds.size() == runs.size();
}

}  // namespace

void set_names(std::vector<TrainingRun>& runs) {
  std::map<std::string, int> counts;
  for (TrainingRun& run : runs) {
    run.name = whole_path(run).filename().string();
    ++counts[run.name];
  }
  for (TrainingRun& run : runs) {
    if (counts[run.name] > 1) run.name = run.folder.string();
  }
}

std::vector<RunGroup> groups_of(const std::vector<TrainingRun>& runs) {
  std::map<std::string, std::vector<const TrainingRun*>> alike;
  for (const TrainingRun& run : runs) alike[run.settings].push_back(&run);
  std::vector<RunGroup> groups;
  std::map<std::string, int> counts;
  for (const TrainingRun& run : runs) {
    const std::vector<const TrainingRun*>& others = alike[run.settings];
    if (others.size() == 1 || !differ_in_seeds(others)) {
      groups.push_back({run.name, {&run}});
    } else if (others.front() == &run) {
      groups.push_back({name_of_seeds(others), others});
    }
    if (!groups.empty() && groups.back().runs.front() == &run) ++counts[groups.back().name];
  }
  for (RunGroup& group : groups) {
    if (counts[group.name] > 1 && group.runs.size() > 1)
      group.name = fmt::format("{} and {} more seeds", group.first().name, group.runs.size() - 1);
  }
  return groups;
}

PlotSeries curve_of(const RunGroup& group,
                    const std::function<std::vector<CurvePoint>(const TrainingRun&)>& points_of) {
  PlotSeries line{.name = group.name};
  if (group.runs.size() == 1) {
    for (const CurvePoint& point : points_of(group.first())) line.points.push_back({point.x, point.y});
    return line;
  }
  line.form = PlotForm::band;
  struct Values {
    std::vector<double> x, y;
  };
  std::map<std::int64_t, Values> steps;
  for (const TrainingRun* run : group.runs) {
    for (const CurvePoint& point : points_of(*run)) {
      steps[point.step].x.push_back(point.x);
      steps[point.step].y.push_back(point.y);
    }
  }
  for (const auto& [step, values] : steps) {
    // Where the slowest run has ended, the mean time may go back.
    const double after = line.points.empty() ? mean(values.x) : line.points.back().x;
    line.points.push_back({.x = std::max(mean(values.x), after),
                           .y = mean(values.y),
                           .low = std::ranges::min(values.y),
                           .high = std::ranges::max(values.y)});
  }
  return line;
}

}  // namespace orthornn::program
