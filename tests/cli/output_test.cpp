// Standard output that is closed, full, or a pipe without a reader: nothing that a command keeps is lost.

#include <initializer_list>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

const Arguments three_steps = {"--steps", "3", "--log-every", "1", "--eval-every", "1"};

/// The run directory has the files of a training with an output, but for its times.
void check_same_run(const fs::path& out, const fs::path& expected) {
  for (const char* name : {"config.toml", "model.h5", "best.h5"}) {
    CAPTURE(name);
    CHECK((content(out / name) == content(expected / name)));
  }
  CHECK(metrics_without_time(out) == metrics_without_time(expected));
}

}  // namespace

TEST_CASE("a training without an output saves what it saves with one", "[cli][output]") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", out = folder / "run";
  check_success(run(train_copying(whole, three_steps)));

  SECTION("the reader ends early, as head does") {
    const ProgramResult result = run(train_copying(out, three_steps), {.without_reader = true});
    check_refused(result, 0, {"standard output has no reader any more"});
  }
  SECTION("standard output is closed") {
    check_refused(run(train_copying(out, three_steps), {.closed = {1}}), 0, {"standard output is closed"});
  }
  SECTION("the disk of the output is full, which is a failure, but not of the training") {
    const ProgramResult result = run(train_copying(out, three_steps), {.output = "/dev/full"});
    CHECK(result.signal == 0);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.errors, contains("going on without it\northornn: cannot write the output: No space"));
    CHECK(lines(result.errors) == 2);
  }
  SECTION("all is closed, so that files get the descriptors of what is printed") {
    const ProgramResult result = run(train_copying(out, three_steps), {.closed = {0, 1, 2}});
    CHECK(result.exit_code == 0);
    CHECK(result.signal == 0);
  }
  SECTION("a number of seeds") {
    check_refused(run(train_copying(out, three_steps + Arguments{"--seeds", "2"}), {.without_reader = true}),
                  0, {"no reader"});
    CHECK(fs::exists(out / "seed2/model.h5"));
    check_same_run(out / "seed2", [&] {
      check_success(run(train_copying(folder / "alone", three_steps + Arguments{"--seed", "2"})));
      return folder / "alone";
    }());
    return;
  }
  check_same_run(out, whole);
}

TEST_CASE("a command that prints alone ends with its output", "[cli][output]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "run", {"--steps", "1"})));
  const std::string model = folder / "run/model.h5";
  for (const Arguments& arguments :
       {Arguments{"eval", model}, Arguments{"inspect", model}, Arguments{"--help"}}) {
    CAPTURE(arguments);
    // As other programs do: quietly, by the signal.
    const ProgramResult left = run(arguments, {.without_reader = true});
    CHECK(left.signal == SIGPIPE);
    CHECK(left.errors == "");
    check_refused(run(arguments, {.output = "/dev/full"}), 1, {"cannot write the output: No space left"});
    check_refused(run(arguments, {.closed = {1}}), 1, {"cannot write the output: Bad file descriptor"});
  }
}

TEST_CASE("a benchmark that keeps its results goes on without a reader", "[cli][output]") {
  const TemporaryFolder folder;
  const fs::path json = folder / "results.json";
  check_refused(
      run({"bench", "prepare", "--cells", "free", "--hidden", "4", "--samples", "1", "--json", json},
          {.without_reader = true}),
      0, {"no reader"});
  CHECK_THAT(content(json), Catch::Matchers::EndsWith("]\n"));
}
