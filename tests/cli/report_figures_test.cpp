// What report draws of several seeds, of the answers of models on own data, and of orthogonal layers.

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <sstream>
#include <vector>

#include "cli/html_page_content.hpp"
#include "cli/run_program.hpp"
#include "support/npz_writer.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using nlohmann::json;

namespace {

/// The page of run directories in the folder. Its command succeeds; `errors` gets what it says, or must be
/// empty.
std::string page_of(const TemporaryFolder& folder, const Arguments& runs, std::string* errors = nullptr) {
  const ProgramResult result =
      run(Arguments{"report", "--out", "page.html"} + runs, {.folder = folder.path()});
  CHECK(result.exit_code == 0);
  if (errors != nullptr) *errors = result.errors;
  if (errors == nullptr) CHECK(result.errors == "");
  const std::string page = content(folder / "page.html");
  check_self_contained(page);
  return page;
}

/// The numbers of a series in the plot of this title.
std::vector<std::vector<double>> points_in(const std::string& page, const std::string& plot,
                                           const std::string& series) {
  const std::size_t start = page.find("aria-label=\"" + plot + "\"");
  CAPTURE(plot, series);
  REQUIRE(start != std::string::npos);
  const std::string figure = page.substr(start, page.find("</figure>", start) - start);
  const std::size_t name = figure.find("<title>" + series + "</title>");
  REQUIRE(name != std::string::npos);
  const std::string key = "data-points=\"";
  const std::size_t at = figure.rfind(key, name) + key.size();
  return json::parse(figure.substr(at, figure.find('"', at) - at));
}

/// A column of a metrics.csv.
std::vector<double> column_of(const fs::path& folder, std::size_t column) {
  std::istringstream rows(content(folder / "metrics.csv"));
  std::string row;
  std::getline(rows, row);
  std::vector<double> numbers;
  while (std::getline(rows, row)) {
    std::istringstream cells(row);
    std::string cell;
    for (std::size_t i = 0; i <= column; ++i) std::getline(cells, cell, ',');
    numbers.push_back(std::stod(cell));
  }
  return numbers;
}

json tested_in(const fs::path& folder) {
  return json::parse(content(folder / "results.json")).at("test").at("best");
}

/// Series of four steps around 300, with one of these classes each and a number.
void write_series(const fs::path& file, int count, int classes) {
  std::ofstream csv(file);
  csv << "series,x,class,size\n";
  for (int i = 0; i < count; ++i) {
    for (int t = 0; t < 4; ++t)
      csv << i << "," << 300 + (i % classes) * 0.1 + t << ",c" << i % classes << "," << 40 + i % classes
          << "\n";
  }
}

void train_series(const TemporaryFolder& folder, const std::string& name, const Arguments& goal) {
  check_success(
      run(Arguments{"train", "sequences", "--data", "own.csv", "--id", "series", "--inputs", "x", "--hidden",
                    "8", "--batch", "8", "--cell", "cwy", "--steps", "30", "--out", name} +
              goal,
          {.folder = folder.path()}));
}

/// The counts of a confusion matrix, [class][answer].
std::vector<std::vector<int>> counts_in(const std::string& page) {
  std::vector<std::vector<int>> counts;
  static const std::regex cell("<b>([0-9]+)</b>");
  const std::size_t start = page.find("<table class=\"map\">");
  REQUIRE(start != std::string::npos);
  std::istringstream rows(page.substr(start, page.find("</table>", start) - start));
  for (std::string row; std::getline(rows, row);) {
    std::vector<int> of_row;
    for (std::sregex_iterator match(row.begin(), row.end(), cell), end; match != end; ++match)
      of_row.push_back(std::stoi((*match)[1]));
    if (!of_row.empty()) counts.push_back(of_row);
  }
  return counts;
}

}  // namespace

TEST_CASE("report draws runs that differ in the seed alone as their mean in a band", "[cli][report]") {
  const TemporaryFolder folder;
  const Arguments steps{"--steps", "4", "--log-every", "1", "--eval-every", "2"};
  check_success(run(train_copying(folder / "two", steps + Arguments{"--seeds", "2"})));
  check_success(run(train_copying(folder / "other", steps + Arguments{"--seed", "3", "--lr", "0.01"})));
  const std::string page = page_of(folder, {"two", "other"});
  CHECK(lines_named(page, "seed1") == 0);
  CHECK(lines_named(page, "other") == lines_named(page, "two, 2 seeds"));
  const auto mean = points_in(page, "Training loss over steps", "two, 2 seeds");
  const std::vector<double> first = column_of(folder / "two/seed1", 2),
                            second = column_of(folder / "two/seed2", 2);
  REQUIRE(mean.size() == 4);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    CHECK(mean[i][0] == static_cast<double>(i + 1));
    CHECK(mean[i][1] == Approx((first[i] + second[i]) / 2));
    CHECK(mean[i][2] == Approx(std::min(first[i], second[i])));
    CHECK(mean[i][3] == Approx(std::max(first[i], second[i])));
  }
  CHECK(points_in(page, "Training loss over steps", "other")[0].size() == 2);
  // Each has its row.
  for (const char* name : {"seed1", "seed2", "other"})
    CHECK_THAT(page, contains("class=\"name\">" + std::string(name) + "</th>"));
}

TEST_CASE("the mean of seeds goes on where one of them has ended", "[cli][report]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "two", {"--steps", "4", "--log-every", "1", "--seeds", "2"})));
  const std::string metrics = content(folder / "two/seed1/metrics.csv");
  write_text(folder / "two/seed1/metrics.csv", metrics.substr(0, metrics.find("\n3,") + 1));
  std::string errors;
  const std::string page = page_of(folder, {"two"}, &errors);
  const auto mean = points_in(page, "Training loss over steps", "two, 2 seeds");
  REQUIRE(mean.size() == 4);
  CHECK(mean[3][1] == Approx(column_of(folder / "two/seed2", 2)[3]));
  CHECK(mean[3][2] == mean[3][3]);
  const auto over_time = points_in(page, "Training loss over time", "two, 2 seeds");
  CHECK(std::is_sorted(over_time.begin(), over_time.end(),
                       [](const auto& a, const auto& b) { return a[0] < b[0]; }));
}

TEST_CASE("report counts which class is taken for which", "[cli][report]") {
  const TemporaryFolder folder;
  write_series(folder / "own.csv", 120, 3);
  train_series(folder, "classes", {"--target", "class"});
  const std::string page = page_of(folder, {"classes"});
  for (const char* name : {"c0", "c1", "c2"})
    CHECK_THAT(page, contains("<th scope=\"row\">" + std::string(name) + "</th>"));
  const std::vector<std::vector<int>> counts = counts_in(page);
  REQUIRE(counts.size() == 3);
  double all = 0, right = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    REQUIRE(counts[i].size() == 3);
    all += std::reduce(counts[i].begin(), counts[i].end());
    right += counts[i][i];
  }
  CHECK(all == 12);
  CHECK(right / all == Approx(tested_in(folder / "classes").at("accuracy").get<double>()));
  CHECK_THAT(page, contains("sequences, own.csv, target class"));
}

TEST_CASE("rows of a confusion matrix are true classes", "[cli][report]") {
  const TemporaryFolder folder;
  std::ofstream csv(folder / "own.csv");
  csv << "series,x,class\n";
  // Nothing tells the classes apart, so the answer is the one that is there more often.
  for (int i = 0; i < 100; ++i) csv << i << ",1," << (i % 4 == 0 ? "rare" : "often") << "\n";
  csv.close();
  train_series(folder, "run", {"--target", "class", "--test-part", "0.3"});
  const std::vector<std::vector<int>> counts = counts_in(page_of(folder, {"run"}));
  REQUIRE(counts.size() == 2);
  CHECK(counts[0][0] + counts[1][0] == 30);
  CHECK(counts[0][0] > counts[1][0]);
  CHECK(counts[1][0] > 0);
}

TEST_CASE("report gathers all but the thirty most frequent classes", "[cli][report]") {
  const TemporaryFolder folder;
  write_series(folder / "own.csv", 400, 40);
  train_series(folder, "classes", {"--target", "class", "--test-part", "0.4"});
  const std::vector<std::vector<int>> counts = counts_in(page_of(folder, {"classes"}));
  REQUIRE(counts.size() == 31);
  int all = 0;
  for (const std::vector<int>& row : counts) {
    REQUIRE(row.size() == 31);
    all += std::reduce(row.begin(), row.end());
  }
  CHECK(all == 160);
  CHECK_THAT(content(folder / "page.html"), contains("<th scope=\"row\">others</th>"));
}

TEST_CASE("report draws true and predicted numbers in the units of the data", "[cli][report]") {
  const TemporaryFolder folder;
  write_series(folder / "own.csv", 100, 5);
  train_series(folder, "numbers", {"--target", "size", "--goal", "value"});
  const auto dots = points_in(page_of(folder, {"numbers"}), "numbers", "test sequences");
  CHECK(dots.size() == 10);
  double squares = 0;
  for (const std::vector<double>& dot : dots) {
    CHECK(std::abs(dot[0] - std::round(dot[0])) < 1e-4);
    CHECK((dot[0] > 39.9 && dot[0] < 44.1));
    squares += (dot[0] - dot[1]) * (dot[0] - dot[1]);
  }
  CHECK(std::sqrt(squares / 10) ==
        Approx(tested_in(folder / "numbers").at("rmse").get<double>()).epsilon(1e-3));
}

TEST_CASE("report leaves out a column of targets that the test data lack", "[cli][report]") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, int count, bool has_second) {
    std::vector<float> inputs, targets;
    for (int i = 0; i < count; ++i) {
      for (int t = 0; t < 3; ++t) inputs.push_back(static_cast<float>(i + t));
      targets.push_back(static_cast<float>(i));
      targets.push_back(has_second ? static_cast<float>(2 * i) : std::numeric_limits<float>::quiet_NaN());
    }
    write_npz(folder / name, {{"inputs", npy("<f4", fmt::format("{}, 3", count), raw_bytes(inputs))},
                              {"targets", npy("<f4", fmt::format("{}, 2", count), raw_bytes(targets))}});
  };
  write("own.npz", 40, true);
  write("test.npz", 4, false);
  check_success(run({"train", "sequences", "--data", "own.npz", "--test", "test.npz", "--goal", "value",
                     "--missing", "zero", "--hidden", "8", "--batch", "8", "--steps", "5", "--out", "run"},
                    {.folder = folder.path()}));
  const std::string page = page_of(folder, {"run"});
  CHECK(points_in(page, "run, column 1", "test sequences").size() == 4);
  CHECK(page.find("run, column 2") == std::string::npos);
}

TEST_CASE("report draws the forecasts of a few test sequences", "[cli][report]") {
  const TemporaryFolder folder;
  write_series(folder / "own.csv", 100, 5);
  train_series(folder, "forecast", {"--goal", "forecast"});
  const std::string page = page_of(folder, {"forecast"});
  for (const char* sequence : {"1", "2", "3"}) {
    const std::string title = "forecast: test sequence " + std::string(sequence);
    const auto expected = points_in(page, title, "true");
    CHECK(points_in(page, title, "predicted").size() == 3);
    REQUIRE(expected.size() == 3);  // four steps, of which each but the last has the next as its target
    CHECK(expected[0][1] == Approx(301).margin(0.5));
    CHECK(expected[1][1] == Approx(expected[0][1] + 1));
  }
}

TEST_CASE("report of own sequences says what it leaves out without their data", "[cli][report]") {
  const TemporaryFolder folder;
  write_series(folder / "own.csv", 60, 3);
  train_series(folder, "run", {"--target", "class"});
  std::ofstream(folder / "own.csv", std::ios::app) << "60,300,c0,40\n";
  std::string errors;
  std::string page = page_of(folder, {"run"}, &errors);
  CHECK_THAT(errors, contains("other data than those"));
  CHECK(occurrences(page, "class=\"map\"") == 0);
  fs::remove(folder / "own.csv");
  page = page_of(folder, {"run"}, &errors);
  CHECK_THAT(errors, contains("own.csv: there is no such file"));
  CHECK_THAT(page, contains("no answers on test data are drawn"));
  // The curves need no data, and results.json has the guesser's loss.
  CHECK(lines_named(page, "a guesser (sequences, own.csv, target class)") == 4);
  CHECK(plots_in(page) > 8);
}

TEST_CASE("report draws the eigenvalue angles of orthogonal layers alone", "[cli][report]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "cwy", {"--steps", "2", "--layers", "2"})));
  check_success(run(train_copying(folder / "free", {"--steps", "2", "--cell", "free"})));
  const std::string title = "Angles of the eigenvalues of Q";
  const std::string page = page_of(folder, {"cwy", "free"});
  for (const char* layer : {"cwy, layer 1", "cwy, layer 2"}) {
    double share = 0;
    for (const std::vector<double>& bin : points_in(page, title, layer)) share += bin[1];
    CHECK(share == Approx(100));
  }
  CHECK(occurrences(page_of(folder, {"free"}), title) == 0);
}
