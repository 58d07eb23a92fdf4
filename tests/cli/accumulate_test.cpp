// train --accumulate: steps of several batches.

#include <fstream>
#include <initializer_list>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("epochs and intervals count steps of several batches", "[cli][accumulate]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  const auto train = [&](const char* out, const Arguments& more) {
    check_success(run(train_mnist(folder / "data", folder / out, more)));
    return content(folder / out / "config.toml");
  };
  // Nine images to train on are two batches an epoch.
  CHECK_THAT(train("one", {"--epochs", "4"}),
             contains("\nsteps = 8\n") && contains("\naccumulate = 1\n") && contains("\neval-every = 2\n"));
  CHECK_THAT(train("two", {"--epochs", "4", "--accumulate", "2"}),
             contains("\nsteps = 4\n") && contains("\naccumulate = 2\n") && contains("\neval-every = 1\n"));
  CHECK_THAT(train("many", {"--epochs", "1", "--accumulate", "9"}),
             contains("\nsteps = 1\n") && contains("\neval-every = 1\n"));
  // Without --steps and --epochs: 15 epochs.
  CHECK_THAT(train("usual", {"--accumulate", "3"}), contains("\nsteps = 10\n"));
}

TEST_CASE("a training is resumed with its own number of batches a step", "[cli][accumulate][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const ProgramResult trained = run(train_copying(out, {"--steps", "2", "--accumulate", "3"}));
  check_success(trained);
  CHECK_THAT(trained.output, contains(", batch 4 times 3, 2 steps"));
  check_refused(run({"train", "--resume", "--out", out.string(), "--steps", "4", "--accumulate", "2"}), 2,
                {"--accumulate 2 was given", "has --accumulate 3"});
  check_success(run({"train", "--resume", "--out", out.string(), "--steps", "4"}));
  CHECK(steps_in(out / "model.h5") == 4);
}
