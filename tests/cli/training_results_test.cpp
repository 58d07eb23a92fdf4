// results.json: what a training keeps of its end, and what report shows of it.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/html_page_content.hpp"
#include "cli/run_program.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Json results_in(const fs::path& folder) { return Json::parse(content(folder / "results.json")); }

/// The number after the last of these words.
double last_number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.rfind(words);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + words.size()));
}

}  // namespace

TEST_CASE("a training keeps its test results beside its model", "[cli][results]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const ProgramResult trained = run(train_copying(out, {"--steps", "4", "--eval-every", "2", "--seed", "7"}));
  check_success(trained);
  const Json results = results_in(out);
  CHECK(results["format"].get<std::string>() == "orthornn-results");
  CHECK(results["seed"].get<int>() == 7);
  CHECK(results["steps"].get<int>() == 4);
  CHECK_FALSE(results["solved"].get<bool>());
  CHECK(results["test"]["last"]["model"].get<std::string>() == "model.h5");
  // What eval finds, to the last bit.
  const ProgramResult evaluated = run({"eval", (out / "model.h5").string(), "--json"});
  check_success(evaluated);
  const Json eval = Json::parse(evaluated.output);
  CHECK(results["test"]["last"]["loss"].get<double>() == eval["cross_entropy"].get<double>());
  CHECK(results["test"]["last"]["accuracy"].get<double>() == eval["accuracy"].get<double>());
  CHECK(last_number_after(trained.output, "test data: loss ") ==
        Approx(results["test"]["last"]["loss"].get<double>()).epsilon(1e-3));  // printed with four digits

  // A training that goes on ends with results of its own.
  check_success(run(train_copying(out, {"--steps", "6", "--eval-every", "2", "--seed", "7", "--resume"})));
  CHECK(results_in(out)["steps"].get<int>() == 6);
}

TEST_CASE("a training that is stopped leaves no results of the one before", "[cli][results]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "2"})));
  CHECK(fs::exists(out / "results.json"));
  fs::remove(out / "model.h5");
  fs::remove(out / "best.h5");
  // It diverges in its first steps.
  const ProgramResult diverged = run(train_copying(out, {"--steps", "50", "--cell", "free", "--lr", "1e30"}));
  CHECK(diverged.exit_code == 1);
  CHECK_FALSE(fs::exists(out / "results.json"));
}

TEST_CASE("a foreign results.json is not replaced", "[cli][results]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  fs::create_directory(out);
  std::ofstream(out / "results.json") << "{\"mine\": 1}\n";
  const ProgramResult refused = run(train_copying(out, {"--steps", "2"}));
  CHECK(refused.exit_code != 0);
  CHECK_THAT(refused.errors, contains("is not what orthornn train writes"));
  CHECK(content(out / "results.json") == "{\"mine\": 1}\n");
}

TEST_CASE("one training replaces no results of several seeds, nor the other way round", "[cli][results]") {
  const TemporaryFolder folder;
  const Arguments two_seeds{"--seeds", "2", "--steps", "1"};
  check_success(run(train_copying(folder / "seeds", two_seeds)));
  const std::string results = content(folder / "seeds/results.json");
  check_refused(run(train_copying(folder / "seeds", {"--steps", "1"})), 1,
                {"results.json", "results of several seeds", "choose another --out"});
  CHECK(content(folder / "seeds/results.json") == results);
  check_success(run(train_copying(folder / "one", {"--steps", "1"})));
  fs::remove(folder / "one/config.toml");
  fs::remove(folder / "one/model.h5");
  check_refused(run(train_copying(folder / "one", two_seeds)), 1,
                {"results.json", "results of one training"});
}

TEST_CASE("report shows test results, and the folder of several seeds with their spread",
          "[cli][results][report]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "five", page_file = folder / "page.html";
  check_success(run(train_copying(out, {"--steps", "3", "--seeds", "2"})));
  const Json all = results_in(out);
  CHECK(all["format"].get<std::string>() == "orthornn-seeds-results");
  REQUIRE(all["trainings"].size() == 2);
  const double first = results_in(out / "seed1")["test"]["last"]["loss"].get<double>();
  const double second = results_in(out / "seed2")["test"]["last"]["loss"].get<double>();
  CHECK(all["spread"][0]["mean"].get<double>() == Approx((first + second) / 2));
  check_success(run({"report", out.string(), "--out", page_file.string()}));
  const std::string page = content(page_file);
  check_self_contained(page);
  for (const char* words : {"seed1", "seed2", "mean", "median"}) {
    CAPTURE(words);
    CHECK_THAT(page, contains(words));
  }
}

TEST_CASE("results say by which command and from which commit they were made", "[cli][results]") {
  const TemporaryFolder folder;
  const RunSettings inside{.folder = folder / "tree/inner"};
  fs::create_directories(inside.folder);
  const auto made = [&](const fs::path& out) {
    check_success(run(train_copying(out, {"--steps", "1"}), inside));
    return results_in(out);
  };
  const Json without = made(folder / "with space");
  CHECK_THAT(without["command"].get<std::string>(),
             contains(" train copying --delay 3 ") && contains("'" + (folder / "with space").string() + "'"));
  CHECK(without["machine"]["device"].get<std::string>() == "cpu");
  CHECK(without["parameters"].get<int>() > 100);
  CHECK(without["ended_by"].get<std::string>() == "steps");
  CHECK_FALSE(without.contains("git_commit"));

  const fs::path git = folder / "tree/.git";
  const std::string commit = "0123456789abcdef0123456789abcdef01234567", other(40, 'b');
  fs::create_directories(git / "refs/heads");
  int number = 0;
  const auto found = [&] {
    const Json results = made(folder / ("run" + std::to_string(number++)));
    return results.value("git_commit", "none");
  };
  write_text(git / "HEAD", "ref: refs/heads/new\n");
  CHECK(found() == "none");  // before the first commit
  write_text(git / "packed-refs", "# pack-refs with: peeled\n" + other + " refs/heads/newer\n" + commit +
                                      " refs/heads/new\n^" + other + "\n");
  CHECK(found() == commit);
  write_text(git / "refs/heads/new", other + "\n");
  CHECK(found() == other);
  write_text(git / "HEAD", commit + "\n");  // detached
  CHECK(found() == commit);
  write_text(git / "HEAD", "ref: refs/../../secret\n");
  write_text(folder / "tree/secret", commit);
  CHECK(found() == "none");

  // Another working tree of the repository.
  fs::create_directories(git / "worktrees/inner");
  write_text(git / "worktrees/inner/HEAD", "ref: refs/heads/new\n");
  write_text(git / "worktrees/inner/commondir", "../..\n");
  write_text(inside.folder / ".git", "gitdir: " + (git / "worktrees/inner").string() + "\n");
  CHECK(found() == other);
}
