#pragma once

#include <vector>

#include "pages/html_page.hpp"
#include "support/training_run.hpp"

namespace orthornn::program {

/// What models of own sequences answer on test data: confusion matrices for classes, and true numbers beside
/// those of the model.
void add_answers(HtmlPage& page, const std::vector<TrainingRun>& runs);

}  // namespace orthornn::program
