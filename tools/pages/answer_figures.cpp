#include "pages/answer_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace orthornn::program {
namespace {

/// "The first 3 of 10 batches of test data were looked at."
std::string part_text(const Answers& answers) {
  if (answers.batches == answers.all_batches) return "";
  return fmt::format(" The first {} of {} batches of test data were looked at.", answers.batches,
                     answers.all_batches);
}

HtmlMap confusion_map(const TrainingRun& run) {
  const Answers& answers = *run.answers;
  HtmlMap map{.title = run.name,
              .caption = "Rows: true classes. Columns: the model's answers." + part_text(answers),
              .rows = answers.classes,
              .columns = answers.classes,
              .weights = {}};
  for (const std::vector<Index>& row : answers.counts) {
    const auto all = static_cast<float>(std::max<Index>(std::reduce(row.begin(), row.end()), 1));
    std::vector<float>& weights = map.weights.emplace_back();
    std::vector<std::string>& texts = map.texts.emplace_back();
    for (const Index count : row) {
      weights.push_back(static_cast<float>(count) / all);
      texts.push_back(std::to_string(count));
    }
  }
  return map;
}

/// ", column 2", where there are several.
std::string column_text(std::size_t column, std::size_t columns) {
  return columns == 1 ? "" : fmt::format(", column {}", column + 1);
}

/// A column of a sequence over its steps.
Plot sequence_plot(const TrainingRun& run, std::size_t sequence, std::size_t column) {
  const std::vector<AnsweredNumbers>& columns = run.answers->sequences[sequence];
  Plot plot{.title = fmt::format("{}: test sequence {}{}", run.name, sequence + 1,
                                 column_text(column, columns.size())),
            .caption =
                "True numbers and those of the model, in the units of the data, at the steps that the model "
                "reads.",
            .x = {.title = "step of the sequence", .from_zero = false},
            .y = {.title = "value", .from_zero = false}};
  const auto add = [&](const char* name, const std::vector<float>& numbers) {
    PlotSeries& line = plot.series.emplace_back(PlotSeries{.name = name});
    for (std::size_t t = 0; t < numbers.size(); ++t) {
      if (!std::isnan(numbers[t])) line.points.push_back({static_cast<double>(t + 1), numbers[t]});
    }
  };
  add("true", columns[column].targets);
  add("predicted", columns[column].outputs);
  return plot;
}

/// The numbers of all sequences, a dot for each; there is one at least.
Plot column_plot(const TrainingRun& run, std::size_t number) {
  const std::vector<AnsweredNumbers>& columns = run.answers->columns;
  const AnsweredNumbers& column = columns[number];
  Plot plot{.title = run.name + column_text(number, columns.size()),
            .caption =
                "A dot is a test sequence, in the units of the data. The nearer it is to the line, the "
                "better is the prediction." +
                part_text(*run.answers),
            .x = {.title = "true", .from_zero = false},
            .y = {.title = "predicted", .from_zero = false}};
  PlotSeries dots{.name = "test sequences", .form = PlotForm::dots};
  for (std::size_t i = 0; i < column.targets.size(); ++i)
    dots.points.push_back({column.targets[i], column.outputs[i]});
  const auto [low, high] = std::ranges::minmax(column.targets);
  plot.series = {dots, {.name = "true = predicted", .points = {{low, low}, {high, high}}, .style = 1}};
  return plot;
}

}  // namespace

void add_answers(HtmlPage& page, const std::vector<TrainingRun>& runs) {
  std::vector<HtmlMap> maps;
  std::vector<Plot> plots;
  std::vector<Picture> pictures;
  for (const TrainingRun& run : runs) {
    for (const Picture& picture : run.pictures) {
      pictures.push_back(picture);
      pictures.back().title = fmt::format("{}: {}", run.name, picture.title);
    }
    if (!run.answers) continue;
    if (!run.answers->classes.empty()) maps.push_back(confusion_map(run));
    for (std::size_t i = 0; i < run.answers->sequences.size(); ++i) {
      for (std::size_t c = 0; c < run.answers->sequences[i].size(); ++c)
        plots.push_back(sequence_plot(run, i, c));
    }
    for (std::size_t i = 0; i < run.answers->columns.size(); ++i) {
      if (!run.answers->columns[i].targets.empty()) plots.push_back(column_plot(run, i));
    }
  }
  if (maps.empty() && plots.empty() && pictures.empty()) return;
  page.heading("Answers on test data");
  if (!maps.empty()) {
    page.paragraph(
        "How often a class was taken for which: a cell counts test data, and its colour is its share of the "
        "row. The diagonal has the right answers.");
    page.maps(maps);
  }
  if (!plots.empty()) page.figures(plots);
  page.pictures(pictures);
}

}  // namespace orthornn::program
