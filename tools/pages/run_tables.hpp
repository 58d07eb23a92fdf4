#pragma once

#include <vector>

#include "pages/html_page.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// What the runs are, and what they are worth, in a row each.
HtmlTable runs_table(const std::vector<TrainingRun>& runs);
/// Loss and metrics on validation data.
HtmlTable validation_table(const std::vector<TrainingRun>& runs);
/// What the runs have in results.json; no rows where there is none.
HtmlTable results_table(const std::vector<TrainingRun>& runs);
/// Spreads of trainings that differ in their seeds; no rows where there are none.
HtmlTable spreads_table(const std::vector<SeedsRun>& seeds);

}  // namespace orthornn::program
