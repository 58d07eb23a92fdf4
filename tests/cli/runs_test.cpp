// orthornn runs: a table of run directories, whatever is in them.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Json listed(const fs::path& folder) {
  const ProgramResult result = run({"runs", folder.string(), "--json"});
  check_success(result);
  return Json::parse(result.output);
}

std::vector<std::string> names_in(const Json& runs) {
  std::vector<std::string> names;
  for (const Json& row : runs) names.push_back(row["name"]);
  return names;
}

std::string notes_of(const Json& row) { return row["notes"].dump(); }

}  // namespace

TEST_CASE("a list of runs has what they are and what they have reached", "[cli][runs]") {
  const TemporaryFolder folder;
  const fs::path runs = folder / "runs";
  check_success(run(train_copying(runs / "b10", {"--steps", "6", "--eval-every", "2"})));
  check_success(run(train_copying(runs / "b9", {"--steps", "2", "--cell", "gru"})));
  check_success(run(train_copying(runs / "a", {"--steps", "1", "--seeds", "2"})));
  const Json found = listed(runs);
  REQUIRE(names_in(found) == std::vector<std::string>{"a/seed1", "a/seed2", "b9", "b10"});
  const Json& row = found[3];
  const Json results = Json::parse(content(runs / "b10/results.json"));
  CHECK(row["task"].get<std::string>() == "copying");
  CHECK(row["cell"].get<std::string>() == "cwy");
  CHECK(found[2]["cell"].get<std::string>() == "gru");
  CHECK(row["state"].get<std::string>() == "finished");
  CHECK(row["steps"].get<int>() == 6);
  CHECK(row["wanted_steps"].get<int>() == 6);
  CHECK(row["parameters"] == results["parameters"]);
  const Json& tested = results["test"].contains("best") ? results["test"]["best"] : results["test"]["last"];
  CHECK(row["test_loss"] == tested["loss"]);
  CHECK(row["test_metric"]["name"].get<std::string>() == "accuracy");
  CHECK(row["test_metric"]["value"] == tested["accuracy"]);
  CHECK(row["best_validation_loss"].get<double>() <=
        results["validation"]["loss"].get<double>() * (1 + 1e-6));
  CHECK(row["notes"].empty());

  const ProgramResult table = run({"runs"}, {.folder = folder.path()});
  check_success(table);
  CHECK(lines(table.output) == 5);
  CHECK_THAT(table.output,
             contains("\nb10     copying cwy ") && contains(" finished ") && contains(" accuracy "));
  const ProgramResult csv = run({"runs", runs.string(), "--csv"});
  check_success(csv);
  CHECK(lines(csv.output) == 5);
  CHECK_THAT(csv.output, Catch::Matchers::StartsWith("name,folder,task,cell,parameters,state,") &&
                             contains("\nb9," + (runs / "b9").string() + ",copying,gru,"));
  // A run directory itself.
  CHECK(names_in(listed(runs / "b9")) == std::vector<std::string>{"b9"});
}

TEST_CASE("a list of runs tells those that ended from those that did not", "[cli][runs]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "stopped", {"--steps", "3"})));
  const std::string results = content(folder / "stopped/results.json");
  fs::remove(folder / "stopped/results.json");
  Json row = listed(folder.path())[0];
  CHECK(row["state"].get<std::string>() == "interrupted");
  CHECK(row["parameters"].get<int>() > 100);  // of the model
  CHECK_FALSE(row.contains("test_loss"));

  // Results of fewer steps than are logged are those of a former end.
  write_text(folder / "stopped/results.json", results);
  CHECK(listed(folder.path())[0]["state"].get<std::string>() == "finished");
  std::ofstream(folder / "stopped/metrics.csv", std::ios::app) << "4,9,1,1,1,,,,\n";
  CHECK(listed(folder.path())[0]["state"].get<std::string>() == "interrupted");

  const int lock = open((folder / "stopped").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(lock, LOCK_EX | LOCK_NB) == 0);
  CHECK(listed(folder.path())[0]["state"].get<std::string>() == "running");
  close(lock);
  CHECK(listed(folder.path())[0]["state"].get<std::string>() == "interrupted");
}

TEST_CASE("a list of runs names what is wrong with a folder", "[cli][runs]") {
  const TemporaryFolder folder;
  const auto make = [&](const char* name) {
    fs::create_directories(folder / name);
    return folder / name;
  };
  make("1 empty");
  write_text(make("2 no model") / "config.toml", "task = \"copying\"\ncell = \"cwy\"\n");
  write_text(make("3 broken") / "config.toml", "task = = 3\n");
  write_text(folder / "3 broken/metrics.csv", "epoch,accuracy\n");
  write_text(folder / "3 broken/model.h5", "no HDF5 file");
  write_text(folder / "3 broken/results.json", "{\"format\": 3}");
  REQUIRE(mkfifo((make("4 pipe") / "metrics.csv").c_str(), 0600) == 0);
  write_text(folder / "4 pipe/config.toml", "task = 7\nsteps = \"many\"\n");
  check_success(run(train_copying(folder / "5 half", {"--steps", "2"})));
  std::ofstream(folder / "5 half/metrics.csv", std::ios::app) << "3,9,1";
  write_text(folder / "a file", "");
  const Json found = listed(folder.path());
  REQUIRE(found.size() == 5);
  CHECK_THAT(notes_of(found[0]), contains("no run directory"));
  CHECK_THAT(notes_of(found[1]), contains("there is no metrics.csv") && contains("no model is saved"));
  CHECK(found[1]["task"].get<std::string>() == "copying");
  CHECK(found[1]["state"].get<std::string>() == "unknown");
  for (const char* name : {"config.toml", "metrics.csv", "model.h5", "results.json"})
    CHECK_THAT(notes_of(found[2]), contains(name));
  CHECK_THAT(notes_of(found[3]), contains("not a regular file") && contains("names no task"));
  CHECK_THAT(notes_of(found[4]), contains("half written"));
  CHECK(found[4]["state"].get<std::string>() == "finished");
  // Models that have lost their ends. `results.json` tells what is asked of them, so they are not opened.
  const fs::path best = folder / "5 half/best.h5", last = folder / "5 half/model.h5";
  REQUIRE(fs::exists(best));
  for (const fs::path& model : {best, last}) fs::resize_file(model, fs::file_size(model) - 100);
  CHECK(listed(folder / "5 half")[0]["notes"].size() == 1);
  fs::remove(folder / "5 half/results.json");
  CHECK_THAT(notes_of(listed(folder / "5 half")[0]),
             contains("best.h5") && contains("model.h5") && contains("truncated"));
  // A training that was stopped before its first row.
  check_success(run(train_copying(folder / "6 early", {"--steps", "2"})));
  fs::remove(folder / "6 early/results.json");
  const std::string logged = content(folder / "6 early/metrics.csv");
  write_text(folder / "6 early/metrics.csv", logged.substr(0, logged.find('\n') + 1));
  const Json early = listed(folder / "6 early")[0];
  CHECK(early["state"].get<std::string>() == "interrupted");
  CHECK(early["steps"].get<int>() == 2);
  check_success(run({"runs", folder.path().string()}));
  check_success(run({"runs", folder.path().string(), "--csv"}));
}

TEST_CASE("a list of runs of no folder is one line, and of an empty one says so", "[cli][runs]") {
  const TemporaryFolder folder;
  check_refused(run({"runs", "absent"}, {.folder = folder.path()}), 1, {"absent", "run directories"});
  const ProgramResult none = run({"runs", folder.path().string()});
  check_success(none);
  CHECK_THAT(none.output, contains("no run directories in"));
  CHECK(listed(folder.path()).empty());
}
