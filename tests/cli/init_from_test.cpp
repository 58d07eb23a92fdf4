// train --init-from: parameters of a saved model as the beginning of another training.

#include <cmath>
#include <initializer_list>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

// A weight loses such a step in rounding. A bias that begins at zero keeps it, and its last bits depend on
// the machine.
constexpr float still_rate = 1e-30f;
const Arguments one_still_step = {"--steps", "1", "--lr", "1e-30", "--lr-orth", "1e-30"};

}  // namespace

TEST_CASE("a training begins with the parameters of another one that fit", "[cli][init-from]") {
  const TemporaryFolder folder;
  const RunSettings here{.folder = folder.path()};
  check_success(run(train_copying("source", {"--steps", "3"}), here));
  const Arguments from = {"--init-from", "source/model.h5"};

  const ProgramResult whole = run(train_copying("whole", one_still_step + from), here);
  check_success(whole);
  CHECK_THAT(whole.output, contains(" parameters are those of '") && !contains("drawn anew"));
  CHECK((parameters_in(folder / "whole/model.h5") == parameters_in(folder / "source/model.h5")));

  const Arguments adding =
      Arguments{"train", "adding", "--length", "5", "--hidden", "8", "--batch", "4"} + one_still_step;
  const ProgramResult some = run(adding + from + Arguments{"--out", "some"}, here);
  check_success(some);
  CHECK_THAT(some.output, contains("3 of 6 parameters are those of '") &&
                              contains("source/model.h5'; drawn anew:\n") &&
                              contains("\n  cell/input_weights [8, 2], [8, 10] there\n") &&
                              contains("\n  readout/bias [1], [9] there\n"));
  check_success(run(adding + Arguments{"--out", "fresh"}, here));
  const auto found = parameters_in(folder / "some/model.h5"),
             fresh = parameters_in(folder / "fresh/model.h5");
  const auto source = parameters_in(folder / "source/model.h5");
  for (const char* name : {"cell/reflection_vectors", "cell/bias", "cell/modrelu_bias"}) {
    const std::string path = std::string("parameters/") + name;
    CHECK((found.at(path) == source.at(path)));
  }
  CHECK((found.at("parameters/cell/reflection_vectors") != fresh.at("parameters/cell/reflection_vectors")));
  for (const char* path : {"parameters/cell/input_weights", "parameters/readout/weight"})
    CHECK((found.at(path) == fresh.at(path)));
  const float bias =
      orthornn::Hdf5Reader(folder / "some/model.h5").read<float>("parameters/readout/bias").data()[0];
  CHECK(std::abs(bias) <= 2 * still_rate);
}

TEST_CASE("a model that gives a training nothing is refused before a folder is made", "[cli][init-from]") {
  const TemporaryFolder folder;
  const RunSettings here{.folder = folder.path()};
  check_success(run(train_copying("source", {"--steps", "1"}), here));
  check_refused(
      run({"train", "adding", "--hidden", "9", "--init-from", "source/model.h5", "--out", "run"}, here), 1,
      {"source/model.h5", "none of its parameters"});
  check_refused(run(train_copying("run", {"--init-from", "absent.h5"}), here), 1, {"absent.h5"});
  check_refused(run(train_copying("run", {"--init-from", "source"}), here), 1, {"source"});
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("a training that was begun from a model is resumed from its own", "[cli][init-from][resume]") {
  const TemporaryFolder folder;
  const RunSettings here{.folder = folder.path()};
  const Arguments begin = {"--init-from", "source/model.h5", "--schedule", "constant"};
  check_success(run(train_copying("source", {"--steps", "1"}), here));
  check_success(run(train_copying("whole", begin + Arguments{"--steps", "4"}), here));
  check_success(run(train_copying("parts", begin + Arguments{"--steps", "2"}), here));
  CHECK_THAT(content(folder / "parts/config.toml"),
             contains("init-from = '" + (folder / "source/model.h5").string() + "'") ||
                 contains("init-from = \"" + (folder / "source/model.h5").string() + "\""));
  check_refused(run(train_copying("parts", begin + Arguments{"--steps", "4", "--resume"}), here), 2,
                {"--init-from", "--resume"});
  fs::remove_all(folder / "source");
  const ProgramResult resumed = run({"train", "--resume", "--out", "parts", "--steps", "4"}, here);
  check_success(resumed);
  CHECK_THAT(resumed.output, !contains("parameters are those of"));
  CHECK((content(folder / "parts/model.h5") == content(folder / "whole/model.h5")));
}
