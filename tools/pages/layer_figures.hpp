#pragma once

#include <vector>

#include "pages/html_page.hpp"
#include "pages/run_curves.hpp"

namespace orthornn::program {

/// How far orthogonal layers turn: a line for each layer of each group, all its runs together.
void add_eigenvalue_angles(HtmlPage& page, const std::vector<RunGroup>& groups);
/// What DeltaProduct layers do: a line for each layer of each run, all heads together.
void add_delta_products(HtmlPage& page, const std::vector<TrainingRun>& runs);

}  // namespace orthornn::program
