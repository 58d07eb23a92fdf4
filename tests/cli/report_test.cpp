// orthornn report: pages of training runs, and what it does not take for one.

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>

#include "cli/browser.hpp"
#include "cli/html_page_content.hpp"
#include "cli/run_program.hpp"
#include "support/occurrences.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Arguments report(const std::vector<fs::path>& sources, const fs::path& out) {
  Arguments arguments = {"report"};
  for (const fs::path& source : sources) arguments.push_back(source.string());
  return arguments + Arguments{"--out", out.string()};
}

fs::path train(const fs::path& out, const Arguments& more = {}) {
  check_success(
      run(train_copying(out, Arguments{"--steps", "6", "--log-every", "1", "--eval-every", "3"} + more)));
  return out;
}

/// A run whose metrics a test writes, which its results would not fit.
fs::path train_for_metrics(const fs::path& out) {
  fs::remove(train(out) / "results.json");
  return out;
}

/// The page of a run with a long name without places to break it, and long numbers.
std::string page_of_wide_run(const TemporaryFolder& folder) {
  const fs::path run_folder = train(folder / std::string(120, 'x')), out = folder / "wide.html";
  std::ofstream(run_folder / "metrics.csv", std::ios::app)
      << "123456,45296.5,0.0012345,1,0.001,1e-07,0.0012345,0.9995,1\n";
  CHECK(run(report({run_folder}, out)).exit_code == 0);
  return content(out);
}

/// The number after the first of these words.
double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + words.size()));
}

std::string table_row(const std::string& page, const std::string& name) {
  const std::string start = "<th scope=\"row\" class=\"name\">" + name + "</th>";
  const std::size_t at = page.find(start);
  REQUIRE(at != std::string::npos);
  return page.substr(at, page.find("</tr>", at) - at);
}

}  // namespace

TEST_CASE("report lays runs over one another on a page that needs nothing else", "[cli][report]") {
  const TemporaryFolder folder;
  const fs::path scratch = folder / "tmp", out = folder / "page.html";
  fs::create_directory(scratch);
  // A name that means something to shells and to HTML.
  const fs::path odd = train(folder / "x'\"; set out \"y\" `id` <b>&amp; %d_{2}", {"--cell", "expm"});
  const fs::path plain = train(folder / "plain");
  const ProgramResult result =
      run(report({odd, plain}, out), {.variables = {{"TMPDIR", scratch.string()}}, .folder = scratch});
  check_success(result);
  CHECK(result.output == "page: " + out.string() + "\n");
  CHECK(fs::is_empty(scratch));

  const std::string page = content(out);
  check_self_contained(page);
  // Training and held-out loss, accuracy, orthogonality error, rate, norm of the gradient and length of the
  // vectors, each over steps and over time; and eigenvalues.
  CHECK(plots_in(page) == 15);
  CHECK(lines_named(page, "plain") == 15);
  const std::string name = "x&#39;&quot;; set out &quot;y&quot; `id` &lt;b&gt;&amp;amp; %d_{2}";
  CHECK(lines_named(page, name) == 13);  // the matrix exponential has no reflections
  CHECK(lines_named(page, "a guesser (copying, delay 3)") == 4);
  for (const char* words : {"training step", "training time [s]", "right [%]", "learning rate"})
    CHECK_THAT(page, contains(">" + std::string(words) + "</text>"));
  const std::string count = Json::parse(run({"inspect", (plain / "model.h5").string(), "--json"}).output)
                                .at("parameter_count")
                                .dump();
  const std::string row = table_row(page, "plain");
  for (const std::string& cell : {std::string("copying, delay 3"), std::string("cwy"),
                                  std::string("complete"), std::string("8"), count, std::string("6 of 6")}) {
    CAPTURE(cell);
    CHECK_THAT(row, contains(">" + cell + "</td>"));
  }
  CHECK_THAT(table_row(page, name), contains("<td>8</td><td>–</td>"));
}

TEST_CASE("report tells folders of one name apart by their paths", "[cli][report]") {
  const TemporaryFolder folder;
  train(folder / "a/run");
  train(folder / "b/run");
  check_success(run({"report", "a/run/", "b/run"}, {.folder = folder.path()}));
  const std::string page = content(folder / "report.html");
  CHECK(lines_named(page, "a/run/") == 15);
  CHECK(lines_named(page, "b/run") == 15);
}

TEST_CASE("report takes a run that is under way, with what its rows leave open", "[cli][report]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train_for_metrics(folder / "run"), out = folder / "page.html";
  const std::string metrics = content(run_folder / "metrics.csv");
  const std::string header = metrics.substr(0, metrics.find('\n') + 1);
  fs::remove(run_folder / "model.h5");
  // Whole, without an evaluation, diverged, cut off in the middle, no numbers, half written.
  write_text(run_folder / "metrics.csv", header +
                                             "1,0.5,2.5,1,0.001,1e-07,2.25,0.125,1\n"
                                             "2,0.75,2.25,1,0.001,1e-07,,,1\n"
                                             "3,1,nan,inf,0.001,0.000e+00,,,1\n"
                                             "4,1.25,2.\n"
                                             "x,1.5,2,1,0.001,1e-07,,,1\n"
                                             "5,2,1.75,1,0.001,1e-07,1.5,0.25");
  const ProgramResult result = run(report({run_folder}, out));
  CHECK(result.exit_code == 0);
  CHECK(lines(result.errors) == 2);
  CHECK_THAT(result.errors, contains("last row of metrics.csv is half written"));
  CHECK_THAT(result.errors, contains("2 rows of metrics.csv left out, line 5: it has 3 cells, expected 9"));
  const std::string page = content(out);
  check_self_contained(page);
  CHECK(plots_in(page) == 14);
  CHECK_THAT(page, contains("2 rows of metrics.csv left out"));
  const std::string row = table_row(page, "run");
  for (const char* cell : {"not at its end", "3 of 6", "1.0 s", "–", "2.250"}) {
    CAPTURE(cell);
    CHECK_THAT(row, contains(std::string(">") + cell + "</td>"));
  }
  CHECK_THAT(page, contains(">2.250, 12.50 % right</td>"));
}

TEST_CASE("report leaves out rows whose steps are none or go back", "[cli][report]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train_for_metrics(folder / "run"), out = folder / "page.html";
  const std::string metrics = content(run_folder / "metrics.csv");
  const auto row = [](const std::string& step) { return step + ",0.5,2.5,1,0.001,1e-07,,,1\n"; };
  write_text(run_folder / "metrics.csv", metrics.substr(0, metrics.find('\n') + 1) + row("1") + row("1e300") +
                                             row("2.5") + row("99999999999999999999") + row("3") + row("2") +
                                             row("3") + row("5"));
  const ProgramResult result = run(report({run_folder}, out));
  CHECK(result.exit_code == 0);
  CHECK(lines(result.errors) == 1);
  CHECK_THAT(result.errors, contains("5 rows of metrics.csv left out, line 3: '1e300' is no whole number"));
  CHECK_THAT(table_row(content(out), "run"), contains(">5 of 6</td>"));
}

TEST_CASE("report draws around numbers that no plot has room for", "[cli][report]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train_for_metrics(folder / "run"), out = folder / "page.html";
  std::ofstream(run_folder / "metrics.csv", std::ios::app) << "7,1,1e308,1,1.79e308,1e308,1e308,1e308,1\n"
                                                              "8,2,1e-308,1,-1.79e308,1e-308,5e-324,0,1\n"
                                                              "9,1e308,1,1,0.001,1e-7,1,0,1\n";
  check_success(run(report({run_folder}, out)));
  check_self_contained(content(out));
  CHECK(lines_named(content(out), "run") == 15);
}

TEST_CASE("report labels a logarithmic axis whose values are close together", "[cli][report]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train_for_metrics(folder / "run"), out = folder / "page.html";
  const std::string metrics = content(run_folder / "metrics.csv");
  write_text(run_folder / "metrics.csv", metrics.substr(0, metrics.find('\n') + 1) +
                                             "1,1,0.95,1,0.001,1e-07,,,1\n2,2,0.93,1,0.001,1e-07,,,1\n"
                                             "3,3,0.92,1,0.001,1e-07,,,1\n");
  check_success(run(report({run_folder}, out)));
  std::string page = content(out);
  page.resize(page.find("</svg>"));  // the plot of the loss, beside a guesser of 0.904
  const std::regex label(R"(>\s*(0\.9\d*)\s*<)");
  std::set<std::string> labels;
  for (std::sregex_iterator match(page.begin(), page.end(), label), end; match != end; ++match)
    labels.insert((*match)[1]);
  CAPTURE(labels.size());
  CHECK(labels.size() >= 3);
}

TEST_CASE("report's tables fit a page of 1280 pixels whatever the name of a run", "[cli][report]") {
  const TemporaryFolder folder;
  const std::string page = page_of_wide_run(folder);
  CHECK(occurrences(page, "<table") > 1);
  CHECK(occurrences(page, "<div class=\"wide\">\n<table") == occurrences(page, "<table"));
  CHECK_THAT(page, contains(".wide {\n  --behind: var(--page); overflow-x: auto;"));
  // Widths in pixels, of a wide font: a letter of 0.85rem, the padding of a cell, and the page's own.
  constexpr double letter = 9, padding = 2 * 0.55 * 16, room = 1280 - 2 * 1.25 * 16 - /*scroll bar*/ 15;
  const double name = 16 * number_after(page, "tbody th.name { overflow-wrap: anywhere; min-width: ");
  static const std::regex cell("<t([hd])( scope=\"[a-z]*\")?( class=\"name\")?>([^<]*)</t.>");
  for (std::size_t at = 0; (at = page.find("<table>", at)) != std::string::npos; ++at) {
    const std::string table = page.substr(at, page.find("</table>", at) - at);
    std::vector<double> widths;
    std::istringstream rows(table);
    for (std::string row; std::getline(rows, row);) {
      std::size_t column = 0;
      for (std::sregex_iterator match(row.begin(), row.end(), cell), end; match != end; ++match, ++column) {
        double width = name;
        if ((*match)[2] != " scope=\"row\"") {
          std::istringstream words((*match)[4]);
          width = 0;
          for (std::string word; words >> word;)
            width = std::max(width, padding + letter * static_cast<double>(word.size()));
        }
        widths.resize(std::max(widths.size(), column + 1));
        widths[column] = std::max(widths[column], width);
      }
    }
    CAPTURE(table.substr(0, 200), widths);
    CHECK(widths.size() > 2);
    CHECK(std::accumulate(widths.begin(), widths.end(), 0.0) < room);
  }
}

TEST_CASE("report's tables are shown whole by a browser, wide or narrow", "[cli][report][long]") {
  if (!has_browser()) {
    WARN("skipped: chromium is not installed");
    return;
  }
  const TemporaryFolder folder;
  // The page says in the title of the one around it how wide it is, and its boxes of tables.
  write_text(folder / "page.html", with_driver(page_of_wide_run(folder), R"(
const boxes = [...document.querySelectorAll('.wide')], fits = box => box.scrollWidth <= box.clientWidth;
parent.postMessage('page ' + fits(document.documentElement) + ', tables ' + boxes.every(fits) + ', scroll ' +
    boxes.every(box => getComputedStyle(box).overflowX === 'auto') + ', captions ' +
    [...document.querySelectorAll('caption')].every(
        text => text.getBoundingClientRect().width <= text.closest('.wide').clientWidth), '*');)"));
  const auto shown = [&](int width) {
    write_text(folder / "frame.html",
               "<script>onmessage = event => document.title = event.data</script><iframe src=\"page.html\" "
               "height=900 "
               "width=" +
                   std::to_string(width) + "></iframe>");
    return shown_by_browser(folder.path(), "frame.html");
  };
  CHECK_THAT(shown(1280), contains("<title>page true, tables true, scroll true, captions true</title>"));
  // There the tables scroll, each in its box.
  CHECK_THAT(shown(420), contains("<title>page true, tables false, scroll true, captions true</title>"));
}

TEST_CASE("report shows a time that is longer than hours can say", "[cli][report][long]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train_for_metrics(folder / "run"), out = folder / "page.html";
  std::ofstream(run_folder / "metrics.csv", std::ios::app) << "7,1e308,1,1,0.001,1e-7,1,0,1\n";
  check_success(run(report({run_folder}, out)));
  CHECK_THAT(table_row(content(out), "run"), contains("<td>1e+308 s</td>"));
}

TEST_CASE("report leaves out rows of a negative time", "[cli][report][long]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train_for_metrics(folder / "run"), out = folder / "page.html";
  std::ofstream(run_folder / "metrics.csv", std::ios::app) << "7,-1e308,1,1,0.001,1e-7,1,0,1\n";
  const ProgramResult result = run(report({run_folder}, out));
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.errors, contains("1 row of metrics.csv left out, line 8: '-1e308' is no time"));
  CHECK_THAT(table_row(content(out), "run"), contains(">6 of 6</td>"));
}

TEST_CASE("report makes pages of UTF-8 for folders of any name", "[cli][report][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "page.html";
  for (const auto& [name, shown] : {std::pair("a\xff"
                                              "b",
                                              "a\xef\xbf\xbd"
                                              "b"),
                                    std::pair("a\x1b"
                                              "b",
                                              "a\xef\xbf\xbd"
                                              "b"),
                                    std::pair("gr\xc3\xbc\xc3\x9f e", "gr\xc3\xbc\xc3\x9f e")}) {
    CAPTURE(shown);
    check_success(run(report({train(folder / name)}, out)));
    check_self_contained(content(out));
    CHECK(lines_named(content(out), shown) == 15);
  }
}

TEST_CASE("report of a run that was interrupted and resumed has all its rows", "[cli][report][long]") {
  const TemporaryFolder folder;
  const fs::path run_folder = train(folder / "run"), out = folder / "page.html";
  check_success(run({"train", "--resume", "--steps", "9", "--out", run_folder.string()}));
  check_success(run(report({run_folder}, out)));
  CHECK_THAT(table_row(content(out), "run"), contains(">9 of 9</td>"));
}

TEST_CASE("report leaves out what has nothing to draw", "[cli][report][long]") {
  const TemporaryFolder folder;
  const fs::path started = train(folder / "started"), full = train(folder / "full"), out = folder / "p.html";
  const std::string metrics = content(started / "metrics.csv");
  write_text(started / "metrics.csv", metrics.substr(0, metrics.find('\n') + 1));
  check_refused(run(report({started}, out)), 1, {started.string(), "no step is logged yet"});
  CHECK_FALSE(fs::exists(out));
  const ProgramResult both = run(report({started, full}, out));
  CHECK(both.exit_code == 0);
  CHECK_THAT(both.errors, contains("'" + started.string() + "': no step is logged yet"));
  CHECK(lines_named(content(out), "full") == 15);
  CHECK(lines_named(content(out), "started") == 1);  // the eigenvalues of its model
  CHECK_THAT(table_row(content(out), "started"), contains(">0 of 6</td>"));
  // The adding task has no right answers to count.
  check_success(run({"train", "adding", "--length", "5", "--hidden", "4", "--batch", "2", "--steps", "2",
                     "--out", (folder / "adding").string()}));
  check_success(run(report({folder / "adding"}, out)));
  CHECK(plots_in(content(out)) == 13);
  CHECK(occurrences(content(out), "Nothing to draw yet.") == 0);
}

TEST_CASE("report shows a run once that is given twice", "[cli][report]") {
  const TemporaryFolder folder;
  train(folder / "run");
  const ProgramResult result = run({"report", "run", "./run/"}, {.folder = folder.path()});
  CHECK(result.exit_code == 0);
  CHECK(lines(result.errors) == 1);
  CHECK_THAT(result.errors, contains("'./run/' was given more than once"));
  CHECK(lines_named(content(folder / "report.html"), "run") == 15);
}

TEST_CASE("report refuses what is no run and writes nothing", "[cli][report][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "page.html", run_folder = train(folder / "run");
  const auto refused = [&](const std::vector<fs::path>& sources, int exit_code,
                           std::initializer_list<std::string> words) {
    check_refused(run(report(sources, out)), exit_code, words);
    CHECK_FALSE(fs::exists(out));
  };
  check_refused(run({"report"}), 2, {"runs"});
  // Any other name may be that of something to keep.
  const std::string model = content(run_folder / "model.h5");
  check_refused(run(report({run_folder}, run_folder / "model.h5")), 2, {"--out", "model.h5", ".html"});
  CHECK((content(run_folder / "model.h5") == model));

  fs::create_directory(folder / "empty");
  refused({folder / "none"}, 1, {(folder / "none").string(), "run directory", "compare.json"});
  // Longer than a name can be.
  refused({std::string(300, 'x')}, 1, {"xxx", "run directory", "compare.json"});
  refused({run_folder, folder / "empty"}, 1, {(folder / "empty").string(), "config.toml"});
  write_text(folder / "bad.json", "{\"format\": ");
  refused({folder / "bad.json"}, 1, {"bad.json", "not JSON"});
  refused({run_folder / "model.h5"}, 1, {"model.h5", "HDF5", "run directory"});
  refused({run_folder, folder / "bad.json"}, 2, {"bad.json", "run directories"});
  write_text(folder / "deep.json", "{\"machine\": " + std::string(500000, '[') + std::string(500000, ']') +
                                       ", \"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4}");
  refused({folder / "deep.json"}, 1, {"deep.json", "nested too deeply"});
  write_text(folder / "own.html", "{}");
  check_refused(run({"report", (folder / "own.html").string()}), 2, {"own.html", "--out"});
  CHECK(content(folder / "own.html") == "{}");
  for (const auto& [text, words] :
       {std::pair("[]", "expected an object with the key 'format'"), std::pair("{}", "'format' is missing"),
        std::pair(R"({"format": "other"})", "format"),
        std::pair(R"([{"benchmark": "rollout"}])", "bench compare --out"),
        std::pair(R"({"format": "orthornn-comparison", "format_version": 2})", "newer"),
        std::pair(R"({"format": "orthornn-comparison", "format_version": 1,
                                      "settings": {"hidden": [], "reflections": []}, "training_step": [],
                                      "construction": [], "stiefel": []})",
                  "no sizes")}) {
    CAPTURE(text);
    write_text(folder / "bad.json", text);
    refused({folder / "bad.json"}, 1, {"bad.json", words});
  }

  const std::string config = content(run_folder / "config.toml");
  write_text(run_folder / "config.toml", config + "speed = 3\n");
  refused({run_folder}, 2, {"config.toml", "speed"});
  write_text(run_folder / "config.toml", "hidden = 8\n");
  refused({run_folder}, 1, {(run_folder / "config.toml").string(), "no task"});
  write_text(run_folder / "config.toml", config);
  write_text(run_folder / "model.h5", model.substr(0, model.size() / 2));
  refused({run_folder}, 1, {"model.h5"});
  write_text(run_folder / "metrics.csv", "time,loss\n1,2\n");
  refused({run_folder}, 1, {"metrics.csv", "'step'"});
  fs::remove(run_folder / "metrics.csv");
  refused({run_folder}, 1, {run_folder.string(), "metrics.csv"});
}
