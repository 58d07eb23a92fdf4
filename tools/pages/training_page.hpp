#pragma once

#include <string>
#include <vector>

#include "pages/training_run.hpp"

namespace orthornn::program {

/// The HTML page of one or more runs, laid over one another. Throws Error where gnuplot is missing.
std::string training_page(const std::vector<TrainingRun>& runs);

}  // namespace orthornn::program
