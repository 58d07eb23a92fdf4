// orthornn bench compare: its tables, its JSON and its page.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/bench_samples.hpp"
#include "cli/html_page_content.hpp"
#include "cli/run_program.hpp"
#include "orthornn/version.hpp"
#include "support/occurrences.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Arguments compare(const fs::path& out, const Arguments& more = {}) {
  return Arguments{"bench", "compare",   "--hidden", "6,9",       "--batch", "2",     "--length",
                   "3",     "--samples", "3",        "--threads", "1",       "--out", out.string()} +
         more;
}

/// 0 is N again, 10 above every N.
const Arguments three_reflections = {"--reflections", "N,N/2,0,6,10"};

void check_warm_times(const Json& result) {
  check_three_samples(result);
  CHECK(result.at("warmed_up") == true);
}

/// "METHOD N L" for each result, sorted.
std::vector<std::string> sizes_in(const Json& results, const char* n, const char* l) {
  std::vector<std::string> found;
  for (const Json& result : results) {
    found.push_back(result.at("method").get<std::string>() + " " + result.at(n).dump() + " " +
                    result.at(l).dump());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> expected_sizes(const Arguments& with, const Arguments& without) {
  std::vector<std::string> expected;
  for (const std::string& method : with) {
    for (const char* size : {"6 6", "6 3", "9 9", "9 4", "9 6"}) expected.push_back(method + " " + size);
  }
  for (const std::string& method : without) {
    for (const char* size : {"6 0", "9 0"}) expected.push_back(method + " " + size);
  }
  std::sort(expected.begin(), expected.end());
  return expected;
}

const Json& one(const Json& results, const std::string& method, const char* n_name, int n, const char* l_name,
                int l) {
  for (const Json& result : results) {
    if (result.at("method") == method && result.at(n_name) == n && result.at(l_name) == l) return result;
  }
  FAIL(method << " is missing at " << n << ", " << l);
  return results;
}

}  // namespace

TEST_CASE("bench compare times every method at every size", "[cli][compare]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "new/out";
  const std::string second = folder / "second.json";
  const ProgramResult result = run(compare(out, three_reflections + Arguments{"--json", second}));
  CHECK(result.exit_code == 0);
  CHECK(content(out / "compare.json") == content(second));
  const Json json = Json::parse(content(out / "compare.json"));

  CHECK(json.at("format") == "orthornn-comparison");
  CHECK(json.at("format_version") == 1);
  CHECK(json.at("library_version") == orthornn::version());
  CHECK_THAT(json.at("command").get<std::string>(),
             contains("orthornn bench compare --hidden 6,9 --reflections N,N/2,6 --batch 2 --length 3"));
  CHECK(json.at("machine").at("device") == "cpu");
  CHECK(json.at("machine").at("threads") == 1);
  CHECK(json.at("machine").at("precision") == "fp32");
  for (const char* text : {"processor", "compiler"})
    CHECK(json.at("machine").at(text).get<std::string>().size() > 3);
  CHECK(json.at("settings") == Json({{"hidden", {6, 9}},
                                     {"reflections", {"N", "N/2", "6"}},
                                     {"batch", 2},
                                     {"length", 3},
                                     {"activation", "modrelu"},
                                     {"samples", 3},
                                     {"limit_seconds", 30.0}}));

  // 6 is N again at N = 6: measured once.
  const std::vector<std::string> sizes = expected_sizes({"cwy", "householder", "householder-rank-one"},
                                                        {"cayley", "expm", "own", "matrix", "free"});
  const std::vector<std::string> with_layers =
      expected_sizes({"cwy", "householder", "householder-rank-one"},
                     {"cayley", "expm", "own", "matrix", "free", "lstm", "gru"});
  for (const char* list : {"training_step", "construction"}) {
    CAPTURE(list);
    const bool whole_step = list == std::string("training_step");
    CHECK(sizes_in(json.at(list), "hidden", "reflections") == (whole_step ? with_layers : sizes));
    for (const Json& timed : json.at(list)) {
      CAPTURE(timed.dump());
      check_warm_times(timed);
      CHECK(timed.contains("sequence_steps_per_second") == whole_step);
    }
  }
  for (const Json& timed : json.at("training_step")) {
    const bool is_layer = timed.at("method") == "lstm" || timed.at("method") == "gru";
    CHECK(timed.contains("orthogonality_error") == !is_layer);
    if (!is_layer) CHECK(timed.at("orthogonality_error").get<double>() < 1e-5);
    CHECK(timed.at("sequence_steps_per_second").get<double>() ==
          Approx(2 * 3 * 1e3 / timed.at("total_ms").get<double>()));
  }
  CHECK(one(json["training_step"], "householder-rank-one", "hidden", 9, "reflections", 4).at("form") ==
        "rank-one");
  // The recurrence takes the cheaper form, the construction needs Q itself.
  CHECK(one(json["training_step"], "cwy", "hidden", 9, "reflections", 4).at("form") == "factored");
  CHECK(one(json["construction"], "cwy", "hidden", 9, "reflections", 4).at("form") == "dense");

  CHECK(sizes_in(json.at("stiefel"), "n", "m") ==
        expected_sizes({"t-cwy", "own", "rgd-c-qr", "rgd-e-qr", "rgd-c-c"}, {}));
  for (const Json& timed : json.at("stiefel")) {
    CAPTURE(timed.dump());
    check_warm_times(timed);
    CHECK((timed.value("backward_ms", 0.0) > 0) ==
          (timed.at("method") == "t-cwy" || timed.at("method") == "own"));
  }
  // docs/math.md, section 2.3, at N = 9 and M = 6.
  const std::pair<const char*, double> operations[] = {{"t-cwy", 4 * 9 * 36 + 216},
                                                       {"own", 4 * 9 * 36 + 14 * 72},
                                                       {"rgd-c-qr", 10 * 9 * 36 - 2 * 72},
                                                       {"rgd-e-qr", 14 * 9 * 36 - 2 * 72},
                                                       {"rgd-c-c", 28 * 9 * 36 + 16 * 216}};
  for (const auto& [method, flops] : operations) {
    CAPTURE(method);
    CHECK(one(json["stiefel"], method, "n", 9, "m", 6).at("mflop").get<double>() == Approx(flops * 1e-6));
  }

  CHECK(json.at("speed_up").size() == 10);
  for (const Json& gain : json.at("speed_up")) {
    const auto time = [&](const std::string& method) {
      return one(json["training_step"], method, "hidden", gain.at("hidden"), "reflections",
                 gain.at("reflections"))
          .at("total_ms")
          .get<double>();
    };
    CHECK(gain.at("factor").get<double>() == Approx(time(gain.at("over")) / time("cwy")));
  }
}

TEST_CASE("bench compare prints tables and what CWY gains at each N", "[cli][compare]") {
  const TemporaryFolder folder;
  const ProgramResult result = run({"bench", "compare", "--hidden", "9,6,9", "--reflections", "N/2",
                                    "--batch", "2", "--length", "2", "--samples", "1"},
                                   {.folder = folder.path()});
  CHECK(result.exit_code == 0);
  for (const char* words :
       {"\ntraining step, ms", "\nconstruction of Q from the parameters, ms",
        "\nStiefel manifold St(N, M), ms", "      N = 6      N = 9\n", "sequential Householder, tiled",
        "rank-one updates", "scaled Cayley", "matrix exponential", "unconstrained", "\nLSTM ", "\nGRU ",
        "OWN       4 N M^2 + 14/3 M^3\n"}) {
    CAPTURE(words);
    CHECK_THAT(result.output, contains(words));
  }
  // A table of its own, with a row for each way and a column for each N.
  static const std::regex gains(R"(\nCWY over [^\n]+, times faster\n[^\n]+ N = 9\n)"
                                R"(sequential Householder, tiled +N/2( +[\d.]+){2} *\n)"
                                R"(sequential Householder, rank-one updates +N/2( +[\d.]+){2} *\n\n)");
  CHECK(std::regex_search(result.output, gains));
  CHECK(result.output.find('*') == result.output.find("* fewer"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("bench compare says how times grow with N, from three sizes on", "[cli][compare]") {
  const ProgramResult result = run({"bench", "compare", "--hidden", "4,8,16", "--reflections", "N", "--batch",
                                    "2", "--length", "2", "--samples", "1"});
  CHECK(result.exit_code == 0);
  // Operations by formula grow exactly so: all are N^3 for M = N.
  static const std::regex operations(R"(millions of operations by formula\n[^\n]+ N = 16    N to the\n)"
                                     R"(T-CWY +N( +[\d.e-]+ ){3} +3\.00\n)");
  CHECK(std::regex_search(result.output, operations));
}

TEST_CASE("bench compare ends with one sample where time is short, and says so", "[cli][compare]") {
  const TemporaryFolder folder;
  const std::string file = folder / "short.json";
  const ProgramResult result = run({"bench", "compare", "--hidden", "6", "--reflections", "N", "--batch", "2",
                                    "--length", "2", "--limit", "1e-9", "--json", file});
  CHECK(result.exit_code == 0);
  const Json json = Json::parse(content(file));
  for (const char* list : {"training_step", "construction"}) {
    for (const Json& timed : json.at(list)) {
      CHECK(timed.at("total_samples_ms").size() == 1);
      CHECK(timed.at("warmed_up") == false);
    }
  }
  CHECK_THAT(result.output, contains("* fewer, as 1e-09 s had gone"));
  // Eight methods in three tables, two layers in one, and five methods in that of the Stiefel manifold.
  CHECK(occurrences(result.output, "*\n") == 8 * 3 + 2 + 5);
}

TEST_CASE("bench compare draws a page that needs nothing else, and report draws it again",
          "[cli][compare][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "out", scratch = folder / "tmp";
  fs::create_directory(scratch);
  const RunSettings settings{.variables = {{"TMPDIR", scratch.string()}}};
  CHECK(run(compare(out, three_reflections), settings).exit_code == 0);
  const std::string page = content(out / "compare.html");
  check_self_contained(page);
  // Five of training steps, two of Q, one of the Stiefel manifold for each M.
  CHECK(plots_in(page) == 10);
  CHECK(occurrences(page, "Nothing to draw yet.") == 0);
  // In plots of time, throughput, time over L, and construction twice.
  for (const char* name : {"CWY", "sequential Householder, tiled", "sequential Householder, rank-one updates",
                           "scaled Cayley", "matrix exponential", "unconstrained"}) {
    CAPTURE(name);
    CHECK(lines_named(page, name) == 5);
    CHECK_THAT(page, contains(std::string("/></g></svg>") + name + "</li>"));
  }
  // In those of training steps.
  for (const char* name : {"LSTM", "GRU"}) CHECK(lines_named(page, name) == 3);
  for (const char* name : {"L = N", "L = N/2", "L = 6"}) CHECK(lines_named(page, name) == 2);
  for (const char* name : {"T-CWY", "RGD-C-QR", "RGD-E-QR", "RGD-C-C"}) CHECK(lines_named(page, name) == 3);
  const Json json = Json::parse(content(out / "compare.json"));
  CHECK_THAT(page, contains(json.at("command").get<std::string>()));
  CHECK_THAT(page, contains(json.at("machine").at("compiler").get<std::string>()));
  for (const char* words : {"prefers-color-scheme: dark", "28 N M² + 16 M³", "state size N", "time [ms]"})
    CHECK_THAT(page, contains(words));

  fs::remove(out / "compare.html");
  check_success(run({"report", (out / "compare.json").string()}, settings));
  CHECK((content(out / "compare.html") == page));
  check_success(run({"report", (out / "compare.json").string(), "--out", (folder / "b.html").string()}));
  CHECK((content(folder / "b.html") == page));
  // The folder stands for the compare.json in it.
  check_success(run({"report", out.string(), "--out", (folder / "c.html").string()}));
  CHECK((content(folder / "c.html") == page));
  CHECK(fs::is_empty(scratch));
}

TEST_CASE("bench compare has written its results before anyone reads the tables", "[cli][compare]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  const RunSettings settings{.folder = folder.path(), .output = "/dev/full"};
  const ProgramResult result = run(compare(out, {"--json", "again.json"}), settings);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.errors, contains("cannot write to standard output"));
  CHECK(Json::parse(content(out / "compare.json")).at("stiefel").size() > 0);
  CHECK(content(folder / "again.json") == content(out / "compare.json"));
}

TEST_CASE("report draws a comparison with samples that have no place on its axes", "[cli][compare]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "compare.json";
  CHECK(run(compare(folder / "out", {"--json", file.string()})).exit_code == 0);
  Json json = Json::parse(content(file));
  json["training_step"][0]["total_samples_ms"][0] = 0;
  json["construction"][0]["total_samples_ms"][0] = 1e308;
  json["stiefel"][0]["total_samples_ms"][0] = 1e-320;
  std::ofstream(file) << json;
  check_success(run({"report", file.string()}));
  const std::string page = content(folder / "compare.html");
  check_self_contained(page);
  CHECK(plots_in(page) == plots_in(content(folder / "out/compare.html")));
  CHECK(lines_named(page, "CWY") == 5);
}

TEST_CASE("bench compare and report draw pages without another program", "[cli][compare]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  const RunSettings alone = without_programs(folder / "nothing");
  const ProgramResult result = run(compare(out), alone);
  check_success(result);
  CHECK_THAT(result.output, contains("training step, ms"));
  const std::string page = content(out / "compare.html");
  check_self_contained(page);
  CHECK(plots_in(page) > 0);
  check_success(run({"report", (out / "compare.json").string()}, alone));
  CHECK((content(out / "compare.html") == page));
}

TEST_CASE("bench compare refuses what it cannot compare, before it measures", "[cli][compare]") {
  const TemporaryFolder folder;
  const auto refused = [&](const Arguments& more, int exit_code, std::initializer_list<std::string> words) {
    CAPTURE(more);
    const ProgramResult result = run(Arguments{"bench", "compare"} + more, {.folder = folder.path()});
    check_refused(result, exit_code, words);
    CHECK(result.output == "");
  };
  refused({"--hidden", "0"}, 2, {"--hidden", "0"});
  refused({"--hidden", "8,x"}, 2, {"--hidden", "x"});
  for (const char* count : {"2N", "N/0", "N/", "N/-2", "-1", "1.5", "n"}) {
    refused({"--reflections", std::string("N,") + count}, 2, {"--reflections", count, "N/2"});
  }
  refused({"--samples", "0"}, 2, {"--samples", "0"});
  refused({"--limit", "0"}, 2, {"--limit", "0"});
  refused({"--limit", "nan"}, 2, {"--limit", "nan"});
  refused({"--length", "0"}, 2, {"--length", "0"});
  refused({"--device", "tpu"}, 2, {"--device", "tpu"});
  refused({"--device", "cuda"}, 1, {"device cuda was asked for", "--device cpu"});
  std::ofstream(folder / "file") << "text";
  refused({"--out", "file"}, 1, {"file", "--out"});
  CHECK(content(folder / "file") == "text");
  const Arguments tiny = {"--hidden", "4,6", "--batch", "2", "--length", "2", "--samples", "1"};
  refused(tiny + Arguments{"--reflections", "7,8"}, 2, {"--reflections 7,8", "6"});
  refused(tiny + Arguments{"--json", "none/a.json"}, 1, {"none/a.json"});
  refused(tiny + Arguments{"--json", "file/a.json"}, 1, {"file/a.json"});
  refused(tiny + Arguments{"--json", "."}, 1, {"'.'", "no regular file"});
  fs::create_directories(folder / "out/compare.html");
  refused(tiny + Arguments{"--out", "out"}, 1, {"out/compare.html", "no regular file"});
}
