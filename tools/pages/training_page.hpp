#pragma once

#include <string>
#include <vector>

#include "support/training_run.hpp"

namespace orthornn::program {

/// The HTML page of one or more runs, drawn in the same plots, with the spreads of those that differ in the
/// seed.
std::string training_page(std::vector<TrainingRun> runs, const std::vector<SeedsRun>& seeds);

}  // namespace orthornn::program
