#pragma once

#include <string>
#include <vector>

#include "pages/training_run.hpp"

namespace orthornn::program {

/// The HTML page of one or more runs, drawn in the same plots, with the spreads of those that differ in the
/// seed. Throws Error if gnuplot is missing.
std::string training_page(const std::vector<TrainingRun>& runs, const std::vector<SeedsRun>& seeds);

}  // namespace orthornn::program
