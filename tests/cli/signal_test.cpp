// Ctrl-C and SIGTERM in the middle of a training.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <initializer_list>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "support/sentence_pairs.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// Waits until signals only ask the training for a stop: SIGHUP has no handler before.
void wait_for_training(const Orthornn& training) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!training.catches(SIGHUP)) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Waits until the training has got somewhere.
void wait_for(const Orthornn& training, const std::string& words) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (training.output_so_far().find(words) == std::string::npos) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// A training whose evaluations take longer than a signal takes to arrive.
Arguments train_slowly_evaluated(const fs::path& out, const Arguments& more) {
  return Arguments{"train", "words",    "--group", "S5",         "--length", "64",    "--batch",
                   "8",     "--hidden", "256",     "--schedule", "constant", "--out", out.string()} +
         more;
}

}  // namespace

TEST_CASE("Ctrl-C or SIGTERM saves, stops, and the training can go on with the same bits",
          "[cli][signal][long]") {
  // `timeout` signals a process and its group: one request arrives twice.
  const auto [signal, times] = GENERATE(std::pair(SIGINT, 1), std::pair(SIGTERM, 1), std::pair(SIGTERM, 2));
  CAPTURE(signal, times);
  const TemporaryFolder folder;
  const fs::path out = folder / "it's a run", whole = folder / "whole";
  const Arguments settings = {"--log-every", "1",    "--eval-every", "1",
                              "--optimizer", "adam", "--schedule",   "constant"};
  Orthornn training(train_copying(out, settings + Arguments{"--steps", "1000000"}));
  wait_for(training, "\nstep 5/");
  for (int i = 0; i < times; ++i) training.send(signal);
  const ProgramResult result = training.wait();
  check_refused(result, 130,
                {"interrupted after step", (out / "model.h5").string(),
                 fmt::format("--resume --out '{}/it'\\''s a run'", folder.path().string())});

  check_success(run({"inspect", (out / "model.h5").string()}));
  const std::int64_t steps = steps_in(out / "model.h5");
  CHECK(steps >= 5);
  CHECK(steps < 1000000);
  CHECK_THAT(result.errors, contains(fmt::format("after step {};", steps)));

  const std::string more = std::to_string(steps + 3);
  check_success(run({"train", "--resume", "--steps", more, "--out", out.string()}));
  check_success(run(train_copying(whole, settings + Arguments{"--steps", more})));
  CHECK((training_content(out / "model.h5") == training_content(whole / "model.h5")));
  // The step of the interruption is evaluated as well: also the best result is the same.
  CHECK((content(out / "model.h5") == content(whole / "model.h5")));
  CHECK(metrics_without_time(out) == metrics_without_time(whole));
}

TEST_CASE("Ctrl-C in one of several seeds names the command that goes on with all", "[cli][signal]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  Orthornn training(
      train_copying(out, {"--log-every", "1", "--steps", "1000000", "--seeds", "2", "--seed", "4"}));
  wait_for(training, "\nstep 5/");
  training.send(SIGINT);
  const ProgramResult result = training.wait();
  check_refused(
      result, 130,
      {(out / "seed4/model.h5").string(), "go on with --resume --seeds 2 --seed 4 --out " + out.string()});
  const ProgramResult resumed =
      run({"train", "--resume", "--seeds", "2", "--seed", "4", "--steps", "1", "--out", out.string()});
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("seed 5 (2 of 2)"));
}

TEST_CASE("Ctrl-C in a step or its validation leaves the validation to the resumption",
          "[cli][signal][long]") {
  const std::string steps = GENERATE("1", "2");  // the last step or an earlier one
  CAPTURE(steps);
  const TemporaryFolder folder;
  const fs::path out = folder / "run", whole = folder / "whole";
  Orthornn training(train_slowly_evaluated(out, {"--steps", steps, "--eval-every", "1"}));
  wait_for_training(training);
  training.send(SIGINT);
  check_refused(training.wait(), 130,
                {"interrupted after step 1; ", (out / "model.h5").string(), "--resume"});
  CHECK(steps_in(out / "model.h5") == 1);
  CHECK_FALSE(fs::exists(out / "best.h5"));
  // The row is there, and waits for its evaluation.
  CHECK(lines(content(out / "metrics.csv")) == 2);
  CHECK_THAT(content(out / "metrics.csv"), contains(",,,"));

  const ProgramResult resumed = run({"train", "--resume", "--out", out.string()});
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("trained after " + steps + " steps"));
  check_success(run(train_slowly_evaluated(whole, {"--steps", steps, "--eval-every", "1"})));
  for (const char* file : {"model.h5", "best.h5"}) CHECK((content(out / file) == content(whole / file)));
  CHECK(metrics_without_time(out) == metrics_without_time(whole));
}

TEST_CASE("a training ends where a validation solves it that was interrupted", "[cli][signal][exact][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  // It is solved from the beginning.
  Orthornn training(
      {"train",        "words",  "--group",      "S4",     "--length",       "128",     "--batch",
       "64",           "--cell", "deltaproduct", "--init", "exact",          "--steps", "9",
       "--eval-every", "1",      "--lr",         "1e-9",   "--until-solved", "--out",   out.string()});
  wait_for_training(training);
  training.send(SIGINT);
  check_refused(training.wait(), 130, {"interrupted after step 1; "});
  const ProgramResult resumed = run({"train", "--resume", "--out", out.string()});
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("\nsolved after 1 steps"));
}

TEST_CASE("Ctrl-C in the last step of one of several seeds begins no other", "[cli][signal]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  Orthornn training(train_slowly_evaluated(out, {"--steps", "1", "--seed", "4", "--seeds", "2"}));
  wait_for_training(training);
  training.send(SIGINT);
  check_refused(
      training.wait(), 130,
      {"interrupted after step 1; ", (out / "seed4/model.h5").string(), "--resume --seeds 2 --seed 4 --out"});
  CHECK(steps_in(out / "seed4/model.h5") == 1);
  CHECK_FALSE(fs::exists(out / "seed5"));
}

TEST_CASE("Ctrl-C while test data are evaluated says how to go on", "[cli][signal][long]") {
  const bool seeds = GENERATE(false, true);
  const TemporaryFolder folder;
  const fs::path out = folder / "run", model = out / (seeds ? "seed4/model.h5" : "model.h5");
  const Arguments several = seeds ? Arguments{"--seeds", "2"} : Arguments{};
  Orthornn training(train_slowly_evaluated(out, Arguments{"--steps", "1", "--seed", "4"} + several));
  wait_for(training, "\ntrained after 1 steps");
  training.send(SIGINT);
  const ProgramResult result = training.wait();
  check_refused(result, 130,
                {"interrupted while evaluating", model.string(), seeds ? "--resume --seeds 2" : "--resume"});
  CHECK_THAT(result.output, !contains("test data"));
  CHECK_FALSE(fs::exists(out / "seed5"));
  const ProgramResult resumed = run({"train", "--resume", "--out", model.parent_path().string()});
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("nothing is left to do") && contains("test data"));
}

TEST_CASE("Ctrl-C while an exact model is evaluated leaves it saved", "[cli][signal][exact][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  // An evaluation that takes longer than a signal takes to arrive.
  Orthornn training({"train", "words", "--group", "S4", "--length", "128", "--batch", "64", "--cell",
                     "deltaproduct", "--init", "exact", "--out", out.string()});
  wait_for_training(training);
  training.send(SIGINT);
  check_refused(training.wait(), 130, {"interrupted after step 0; ", (out / "model.h5").string()});
  CHECK(steps_in(out / "model.h5") == 0);
  CHECK_FALSE(fs::exists(out / "best.h5"));
  check_success(run({"train", "--resume", "--out", out.string()}));
  CHECK(steps_in(out / "best.h5") == 0);
}

TEST_CASE("Ctrl-C or SIGTERM before a training begins is said, and ends the program", "[cli][signal]") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  // Pieces of a text that take longer to find than a signal takes to arrive.
  const fs::path data = write_text(folder / "pairs.txt", number_pairs(10'000));
  Orthornn training({"train", "translate", "--data", data.string(), "--tokenizer", "sentencepiece",
                     "--vocabulary", "100", "--out", out.string()});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!training.catches(signal)) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  training.send(signal);
  const ProgramResult result = training.wait();
  CHECK(result.signal == signal);
  CHECK_THAT(result.errors, Catch::Matchers::StartsWith("orthornn: interrupted"));
  CHECK(lines(result.errors) == 1);
  CHECK_FALSE(fs::exists(out / "model.h5"));
}

TEST_CASE("a schedule goes on after Ctrl-C as if nothing had been", "[cli][signal]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", whole = folder / "whole";
  // Slow enough to be interrupted on any machine.
  const auto train = [&](const fs::path& to) {
    return Arguments{"train",      "copying", "--delay",  "30", "--hidden",    "32",
                     "--batch",    "32",      "--steps",  "60", "--out",       to.string(),
                     "--schedule", "cosine",  "--warmup", "10", "--log-every", "5"};
  };
  Orthornn training(train(out));
  wait_for(training, "\nstep 5/");
  training.send(SIGINT);
  const ProgramResult result = training.wait();
  check_refused(result, 130, {"interrupted"});
  REQUIRE(steps_in(out / "model.h5") < 60);
  check_success(run({"train", "--resume", "--out", out.string()}));
  check_success(run(train(whole)));
  CHECK(steps_in(out / "model.h5") == 60);
  CHECK((training_content(out / "model.h5") == training_content(whole / "model.h5")));
  CHECK(metrics_without_time(out) == metrics_without_time(whole));  // no row for the interruption
}

TEST_CASE("Ctrl-C is heard while nobody reads the output, and the training ends as usual", "[cli][signal]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  REQUIRE(fcntl(reader, F_SETPIPE_SZ, 4096) >= 4096);
  Orthornn training(train_copying(out, {"--log-every", "1", "--steps", "1000000"}), {.output = pipe});
  // The pipe is full when for a while nothing has been added to what it holds.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  for (int waiting = 0, before = 0, calm = 0; calm < 10; before = waiting) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    REQUIRE(ioctl(reader, FIONREAD, &waiting) == 0);
    calm = waiting > 2048 && waiting == before ? calm + 1 : 0;
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
  training.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  REQUIRE(fcntl(reader, F_SETFL, 0) == 0);
  char buffer[4096];
  while (read(reader, buffer, sizeof buffer) > 0) continue;
  close(reader);
  check_refused(training.wait(), 130, {"interrupted after step", "--resume"});
  CHECK(steps_in(out / "model.h5") > 5);
}

TEST_CASE("an interruption when the disk is full is an error, and the earlier model loads", "[cli][signal]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  // A model larger than what the program prints and logs until it is interrupted.
  check_success(run({"train", "copying", "--delay", "50", "--hidden", "128", "--batch", "64", "--steps", "2",
                     "--log-every", "1", "--out", out.string()}));
  const std::string model = content(out / "model.h5");
  Orthornn training(
      {"train", "--resume", "--steps", "1000000", "--save-every", "1000000", "--out", out.string()},
      {.largest_file = 100000});
  wait_for(training, "\nstep 5/");
  training.send(SIGINT);
  const ProgramResult result = training.wait();
  CHECK(result.exit_code == 1);
  CHECK(lines(result.errors) == 2);  // that it cannot be written, and at the end that it is not
  CHECK_THAT(result.errors, contains((out / "model.h5").string() + "': File too large"));
  CHECK_THAT(result.errors, contains("interrupted after step"));
  CHECK_THAT(result.errors, contains("not written: 'model.h5'"));
  CHECK((content(out / "model.h5") == model));
  check_success(run({"inspect", (out / "model.h5").string()}));
}
