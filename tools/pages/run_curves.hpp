#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pages/plot.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// Names the runs by their folders, with as much of their paths as distinguishes them.
void set_names(std::vector<TrainingRun>& runs);

/// Runs that are drawn as one line: one, or several whose settings differ in the seed alone.
struct RunGroup {
  std::string name;
  std::vector<const TrainingRun*> runs;

  const TrainingRun& first() const { return *runs.front(); }
};

/// The groups in the order of their first runs. They point to the runs, which have their names.
std::vector<RunGroup> groups_of(const std::vector<TrainingRun>& runs);

/// A point of a run at a step, which runs of a group have in common.
struct CurvePoint {
  std::int64_t step;
  double x, y;
};

/// The line of a group with its name: the points of its run. Of several runs, each point is the mean of those
/// that have its step, and a band reaches from the smallest to the largest of them.
PlotSeries curve_of(const RunGroup& group,
                    const std::function<std::vector<CurvePoint>(const TrainingRun&)>& points_of);

}  // namespace orthornn::program
