// train --patience: a training that no longer gets better ends.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

Json results_of(const fs::path& out) { return Json::parse(content(out / "results.json")); }

/// With this rate no parameter changes, so the first validation is the best. There is one every two steps.
const Arguments without_progress = {"--lr",         "1e-30", "--lr-orth",  "1e-30",
                                    "--eval-every", "2",     "--schedule", "constant"};

}  // namespace

TEST_CASE("a training ends after as many validations without a better one as it has patience",
          "[cli][patience]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const ProgramResult result =
      run(train_copying(out, without_progress + Arguments{"--steps", "50", "--patience", "3"}));
  check_success(result);
  CHECK_THAT(result.output, contains("\nstopped early: of 3 evaluations in a row none has been below") &&
                                contains(" of step 2 (--patience)"));
  CHECK(steps_in(out / "model.h5") == 8);
  CHECK(steps_in(out / "best.h5") == 2);
  CHECK(results_of(out)["steps"].get<int>() == 8);
  CHECK(results_of(out)["ended_by"].get<std::string>() == "patience");
  CHECK_THAT(content(out / "config.toml"), contains("\npatience = 3\n"));

  // Nothing is left to do but with more patience.
  const std::string model = content(out / "model.h5");
  const ProgramResult again = run({"train", "--resume", "--out", out.string()});
  check_success(again);
  CHECK_THAT(again.output, contains("stopped early"));
  CHECK((content(out / "model.h5") == model));
  check_success(run({"train", "--resume", "--out", out.string(), "--patience", "5"}));
  CHECK(steps_in(out / "model.h5") == 12);
}

TEST_CASE("a training that gets better, or has no --patience, takes all its steps", "[cli][patience]") {
  const TemporaryFolder folder;
  const ProgramResult patient =
      run(train_copying(folder / "patient", without_progress + Arguments{"--steps", "9"}));
  check_success(patient);
  CHECK_THAT(patient.output, !contains("stopped early"));
  CHECK(results_of(folder / "patient")["steps"].get<int>() == 9);
  check_success(run(train_copying(
      folder / "better", {"--steps", "30", "--eval-every", "10", "--lr", "1e-3", "--patience", "1"})));
  CHECK(results_of(folder / "better")["steps"].get<int>() == 30);
  CHECK(results_of(folder / "better")["ended_by"].get<std::string>() == "steps");
}

TEST_CASE("a resumed training has the patience that an uninterrupted one has", "[cli][patience][resume]") {
  const TemporaryFolder folder;
  const Arguments patience = without_progress + Arguments{"--patience", "4", "--log-every", "1"};
  check_success(run(train_copying(folder / "whole", patience + Arguments{"--steps", "50"})));
  CHECK(steps_in(folder / "whole/model.h5") == 10);
  check_success(run(train_copying(folder / "parts", patience + Arguments{"--steps", "6"})));
  CHECK(results_of(folder / "parts")["ended_by"].get<std::string>() == "steps");
  check_success(run({"train", "--resume", "--out", (folder / "parts").string(), "--steps", "50"}));
  CHECK((training_content(folder / "parts/model.h5") == training_content(folder / "whole/model.h5")));
  CHECK(metrics_without_time(folder / "parts") == metrics_without_time(folder / "whole"));
}

TEST_CASE("a resumed training counts the validations that were made, whatever their interval was",
          "[cli][patience][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, without_progress + Arguments{"--patience", "4", "--steps", "6"})));
  // The best one at step 2, then two without success, and two more at steps 7 and 8.
  check_success(run({"train", "--resume", "--out", out.string(), "--steps", "50", "--eval-every", "1"}));
  CHECK(steps_in(out / "model.h5") == 8);
  CHECK(results_of(out)["ended_by"].get<std::string>() == "patience");
  // The command that only looks at it has not made it.
  const std::string command = results_of(out)["command"].get<std::string>();
  check_success(run({"train", "--resume", "--out", out.string()}));
  CHECK(results_of(out)["command"].get<std::string>() == command);
}

TEST_CASE("an unsolved training that has lost patience says how it goes on", "[cli][patience]") {
  const TemporaryFolder folder;
  const ProgramResult result = run(train_copying(
      folder / "run", without_progress + Arguments{"--steps", "50", "--patience", "1", "--until-solved"}));
  check_refused(result, 3, {"not solved after 4 steps", "--patience 2"});
}
