// Full disks, limits, folders that cannot be written to, and kill -9 in the middle of a save: the earlier
// model stays, and the training goes on.

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "test_paths.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

const Arguments save_often = {"--save-every", "1", "--eval-every", "1", "--log-every", "1"};

/// The program with its N-th file-system call in `folder` going wrong (kill_at_call.c).
struct Struck {
  ProgramResult result;
  /// Were there N calls at all?
  bool reached;
  std::string call;
};

Struck run_struck(const Arguments& arguments, const fs::path& folder, int n, const std::string& error) {
  Struck struck{run(arguments, {.variables = kill_at_call(ORTHORNN_KILL_AT_CALL, folder, n, error)}), false,
                ""};
  // What the shim said is not the program's.
  std::string& errors = struck.result.errors;
  if (const std::size_t start = errors.find("kill_at_call: "); start != std::string::npos) {
    const std::size_t end = errors.find('\n', start);
    struck.call = errors.substr(start, end - start);
    struck.reached = true;
    errors.erase(start, end + 1 - start);
  }
  return struck;
}

void check_loads(const fs::path& model) { check_success(run({"inspect", model.string()})); }

Json json_in(const fs::path& file) { return Json::parse(content(file)); }

/// Waits until `is_so`.
void wait_until(const auto& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("whichever call a full disk fails, a training begins not at all, or goes on and saves all",
          "[cli][save][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", sound = folder / "sound", whole = folder / "whole";
  check_success(run(train_copying(sound, save_often + Arguments{"--steps", "1"})));
  check_success(run(train_copying(whole, save_often + Arguments{"--steps", "2"})));
  const std::string error = GENERATE("ENOSPC", "EIO");
  const char* reason = error == "EIO" ? "Input/output error" : "No space left on device";
  int n = 1, refused = 0, went_on = 0;
  for (bool reached = true; reached; ++n) {
    REQUIRE(n < 300);
    fs::remove_all(out);
    fs::copy(sound, out);
    const Struck struck =
        run_struck({"train", "--resume", "--steps", "2", "--out", out.string()}, out, n, error);
    CAPTURE(n, struck.call);
    reached = struck.reached;
    if (!reached) {
      check_success(struck.result);
      break;
    }
    // Nothing half written stays behind.
    for (const auto& entry : fs::directory_iterator(out)) CHECK(entry.path().extension() != ".tmp");
    check_loads(out / "model.h5");
    const bool is_open = struck.call.find("open") != std::string::npos;
    if (struck.result.exit_code == 0) {
      ++went_on;
      CHECK(lines(struck.result.errors) == 2);
      CHECK_THAT(struck.result.errors, contains("cannot write '" + out.string()));
      if (!is_open) CHECK_THAT(struck.result.errors, contains(reason));
      CHECK_THAT(struck.result.errors, contains("The training goes on and tries again\northornn: all that"));
      for (const char* name : {"model.h5", "best.h5"}) CHECK((content(out / name) == content(whole / name)));
      CHECK(metrics_without_time(out) == metrics_without_time(whole));
    } else {
      ++refused;
      check_refused(struck.result, 1, {out.string()});
      if (!is_open) check_refused(struck.result, 1, {reason});
      CHECK((content(out / "model.h5") == content(sound / "model.h5")));
    }
  }
  CHECK(refused > 10);
  CHECK(went_on > 10);
}

TEST_CASE("a disk that stays full costs no steps, and the end names what is not written", "[cli][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  // Room for some 20 rows of metrics.csv.
  const ProgramResult result =
      run(train_copying(out, {"--steps", "30", "--log-every", "1", "--eval-every", "15"}),
          {.largest_file = 2048, .output = "/dev/null"});
  CHECK(result.exit_code == 1);
  CHECK(lines(result.errors) == 2);
  CHECK_THAT(result.errors, contains("File too large"));
  CHECK_THAT(result.errors, contains("The training goes on and tries again\n"));
  CHECK_THAT(result.errors, contains("not written: "));
  for (const char* name : {"'metrics.csv'", "'best.h5'", "'model.h5'"})
    CHECK_THAT(result.errors, contains(name));
  CHECK_FALSE(fs::exists(out / "model.h5"));
  const std::string metrics = content(out / "metrics.csv");
  CHECK(metrics.size() > 1000);
  CHECK(metrics.ends_with('\n'));  // no part of a row
}

TEST_CASE("a model of one of several seeds waits for room", "[cli][save][seeds]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "all", blocking = block_writes(out / "seed1/model.h5");
  Orthornn training(train_copying(out, {"--steps", "200", "--seeds", "3"}));
  wait_until([&] { return training.output_so_far().find("seed 2 (2 of 3)") != std::string::npos; });
  CHECK_FALSE(fs::exists(out / "seed1/model.h5"));
  fs::remove(blocking);
  const ProgramResult result = training.wait();
  CHECK(result.exit_code == 0);
  CHECK(lines(result.errors) == 2);
  CHECK_THAT(result.errors, contains("The training goes on and tries again\northornn: all that"));
  check_success(run(train_copying(folder / "alone", {"--steps", "200"})));
  CHECK((content(out / "seed1/model.h5") == content(folder / "alone/model.h5")));
  const Json results = json_in(out / "results.json");
  CHECK(results["trainings"].size() == 3);
  CHECK(results["failed"].empty());
}

TEST_CASE("a seed that cannot be saved or begun costs no other, and no results name its model",
          "[cli][save][seeds]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "all";
  block_writes(out / "seed1/model.h5");
  block_writes(out / "seed2/config.toml");
  const ProgramResult result = run(train_copying(out, {"--steps", "3", "--seeds", "3"}));
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.errors,
             contains("2 of 3 trainings failed: seed 1 (not written: 'model.h5'; cannot write "));
  CHECK_THAT(result.errors, contains("), seed 2 (cannot write "));
  CHECK_THAT(result.output, contains("test data of 2 seeds, each by its best model, or else its last:"));
  check_loads(out / "seed3/model.h5");
  CHECK_THAT(result.output, contains(", not saved as " + (out / "seed1/model.h5").string() + "\n"));
  CHECK_THAT(result.output, contains(": " + (out / "seed3/model.h5").string() + "\n"));
  const Json unsaved = json_in(out / "seed1/results.json")["test"]["last"];
  CHECK_FALSE(unsaved.contains("model"));
  CHECK(unsaved["step"].get<int>() == 3);
  CHECK(json_in(out / "seed1/results.json")["test"]["best"]["model"].get<std::string>() == "best.h5");
  const Json results = json_in(out / "results.json");
  CHECK(results["trainings"].size() == 2);
  REQUIRE(results["failed"].size() == 2);
  CHECK(results["failed"][0]["seed"].get<int>() == 1);
  CHECK(results["failed"][1]["seed"].get<int>() == 2);
  check_success(run({"report", (out / "seed1").string(), "--out", (folder / "page.html").string()}));
}

TEST_CASE("several seeds on a full disk are all trained, and the end names all that is lost",
          "[cli][save][seeds]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "all";
  block_writes(out / "results.json");
  for (const char* seed : {"seed1", "seed2", "seed3"}) {
    for (const char* name : {"model.h5", "best.h5", "results.json"}) block_writes(out / seed / name);
  }
  const ProgramResult result = run(train_copying(out, {"--steps", "3", "--seeds", "3"}));
  CHECK(result.exit_code == 1);
  CHECK(lines(result.errors) == 3);
  CHECK_THAT(result.errors, contains("The training goes on and tries again\n"));
  CHECK_THAT(result.errors,
             contains("not written: 'seed1/best.h5', 'seed1/model.h5', 'seed1/results.json', "));
  CHECK_THAT(result.errors, contains(", 'seed3/results.json', 'results.json'; "));
  CHECK_THAT(result.errors, contains("3 of 3 trainings failed: seed 1 (not written: "));
  CHECK_THAT(result.output, contains("test data of 3 seeds"));
}

TEST_CASE("several seeds are refused before the first where one of them is trained", "[cli][save][seeds]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "all";
  check_success(run(train_copying(out, {"--steps", "1", "--seeds", "2"})));
  fs::remove_all(out / "seed1");
  const std::string results = content(out / "results.json");
  check_refused(run(train_copying(out, {"--steps", "1", "--seeds", "2"})), 1,
                {(out / "seed2").string(), "--resume"});
  CHECK(content(out / "results.json") == results);
  CHECK_FALSE(fs::exists(out / "seed1"));
}

TEST_CASE("metrics.csv that is removed during a training has all rows at its end", "[cli][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", metrics = out / "metrics.csv";
  Orthornn training(train_copying(out, {"--steps", "500", "--log-every", "1"}), {.output = "/dev/null"});
  wait_until([&] { return lines(content(metrics)) > 5; });
  fs::remove(metrics);
  check_success(training.wait());
  CHECK(lines(content(metrics)) == 501);
  CHECK_THAT(content(metrics), contains("\n1,"));
}

TEST_CASE("a limit on file sizes is an error like a full disk", "[cli][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "2"})));
  const std::string model = content(out / "model.h5");
  REQUIRE(model.size() > 4096);
  const ProgramResult result =
      run({"train", "--resume", "--steps", "4", "--out", out.string()}, {.largest_file = 4096});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.errors, contains((out / "best.h5").string() + "': File too large"));
  CHECK((content(out / "model.h5") == model));
  check_loads(out / "model.h5");
  check_loads(out / "best.h5");
  check_success(run({"train", "--resume", "--steps", "4", "--out", out.string()}));
}

TEST_CASE("predict and bench leave the old output when the new one does not fit", "[cli][save]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  Tensor<std::int32_t> x(Shape{50, 20});
  Hdf5Writer writer;
  writer.dataset("x", x);
  writer.commit(folder / "in.h5");
  const Arguments predict = {"predict", (folder / "run/model.h5").string(), (folder / "in.h5").string(), "-o",
                             (folder / "out.h5").string()};
  check_success(run(predict));
  const std::string output = content(folder / "out.h5");
  check_refused(run(predict, {.largest_file = 4096}), 1, {"out.h5", "File too large"});
  CHECK((content(folder / "out.h5") == output));

  const Arguments bench = {"bench", "prepare",   "--cells", "free",   "--hidden",
                           "4",     "--samples", "1",       "--json", (folder / "bench.json").string()};
  check_success(run(bench));
  const std::string json = content(folder / "bench.json");
  REQUIRE(json.size() > 400);
  check_refused(run(bench, {.largest_file = 400, .output = "/dev/null"}), 1,
                {"bench.json", "File too large"});
  CHECK((content(folder / "bench.json") == json));
}

TEST_CASE("a run directory that cannot be is refused before the training", "[cli][save]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string below_a_file = folder / "run/model.h5/run", a_file = folder / "run/metrics.csv";
  check_refused(run(train_copying(below_a_file, {"--steps", "1"})), 1, {below_a_file, "Not a directory"});
  check_refused(run(train_copying(a_file, {"--steps", "1"})), 1, {a_file});
  const std::string long_name = folder / std::string(300, 'n');
  check_refused(run(train_copying(long_name, {"--steps", "1"})), 1, {"File name too long"});
  check_loads(folder / "run/model.h5");
}

TEST_CASE("a folder without the right to write is refused before the training", "[cli][save]") {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "1"})));
  fs::permissions(out, fs::perms(0555));
  const std::string model = content(out / "model.h5");
  const RunSettings as_user{.as_user = true};
  if (run({"--version"}, as_user).exit_code != 0) {
    WARN("skipped: the user nobody cannot run " ORTHORNN_PROGRAM);
    return;
  }
  check_refused(run({"train", "--resume", "--steps", "2", "--out", out.string()}, as_user), 1,
                {out.string(), "cannot write"});
  check_refused(run(train_copying(out / "deeper", {"--steps", "1"}), as_user), 1,
                {out.string(), "Permission denied"});
  CHECK((content(out / "model.h5") == model));
  check_success(run({"eval", (out / "model.h5").string()}, as_user));
  fs::permissions(out / "model.h5", fs::perms(0));
  check_refused(run({"eval", (out / "model.h5").string()}, as_user), 1, {"permission"});
  fs::permissions(out, fs::perms(0755));
}

TEST_CASE("a model without the right to read is not said to be removed", "[cli][save]") {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, save_often + Arguments{"--steps", "1"})));
  fs::permissions(out, fs::perms(0777));
  const RunSettings as_user{.as_user = true};
  if (run({"--version"}, as_user).exit_code != 0) {
    WARN("skipped: the user nobody cannot run " ORTHORNN_PROGRAM);
    return;
  }
  for (const char* name : {"model.h5", "best.h5"}) {
    fs::permissions(out / name, fs::perms(0));
    const ProgramResult result = run({"train", "--resume", "--steps", "2", "--out", out.string()}, as_user);
    check_refused(result, 1, {(out / name).string(), "permission denied", "chmod", "owner"});
    CHECK(result.errors.find("emove") == std::string::npos);
    fs::permissions(out / name, fs::perms(0644));
  }
}

TEST_CASE("a training killed at any moment leaves a whole model, and can be resumed",
          "[cli][save][kill][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", whole = folder / "whole";
  const Arguments two_steps = save_often + Arguments{"--steps", "2"};
  check_success(run(train_copying(whole, two_steps)));
  const std::string expected = content(whole / "model.h5"), expected_best = content(whole / "best.h5");

  bool saved_once = false;
  std::int64_t last_steps = 0;
  int n = 1, before_first_save = 0;
  for (bool reached = true; reached; ++n) {
    REQUIRE(n < 300);
    fs::remove_all(out);
    fs::create_directory(out);  // the shim counts calls in a folder that exists
    const Struck struck = run_struck(train_copying(out, two_steps), out, n, "");
    CAPTURE(n, struck.call);
    reached = struck.reached;
    CHECK(struck.result.signal == (reached ? SIGKILL : 0));
    CHECK(struck.result.errors == "");

    // No model before the first save is through; from then on one that never goes back.
    const bool exists = fs::exists(out / "model.h5");
    if (saved_once) CHECK(exists);
    saved_once = saved_once || exists;
    before_first_save += !exists;
    if (exists) {
      check_loads(out / "model.h5");
      const std::int64_t steps = steps_in(out / "model.h5");
      CHECK(steps >= last_steps);
      last_steps = steps;
    }
    if (fs::exists(out / "best.h5")) check_loads(out / "best.h5");
    if (!reached) break;

    // Where config.toml was not there yet, nothing was begun.
    if (fs::exists(out / "config.toml")) {
      check_success(run({"train", "--resume", "--out", out.string()}));
    } else {
      check_success(run(train_copying(out, two_steps)));
    }
    CHECK((content(out / "model.h5") == expected));
    CHECK((content(out / "best.h5") == expected_best));
    // Steps that were logged but not saved are logged anew, not twice.
    const std::string metrics = content(out / "metrics.csv");
    CHECK(lines(metrics) == 3);
    CHECK_THAT(metrics, contains("\n1,"));
    CHECK_THAT(metrics, contains("\n2,"));
    for (const auto& entry : fs::directory_iterator(out)) CHECK(entry.path().extension() != ".tmp");
  }
  CHECK(last_steps == 2);
  CHECK(before_first_save > 5);
  CHECK(n - before_first_save > 8);
}
