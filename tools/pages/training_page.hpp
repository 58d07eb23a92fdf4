#pragma once

#include <string>
#include <vector>

#include "pages/training_run.hpp"

namespace orthornn::program {

/// The HTML page of one or more runs, drawn in the same plots. Throws Error if gnuplot is missing.
std::string training_page(const std::vector<TrainingRun>& runs);

}  // namespace orthornn::program
