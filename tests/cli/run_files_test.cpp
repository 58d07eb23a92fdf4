// Files in a run directory that are the user's own.

#include <initializer_list>

#include "cli/run_program.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

/// The training is refused, with this reason, and the file stays.
void check_kept(const Arguments& training, const fs::path& file, const std::string& reason) {
  CAPTURE(file);
  const std::string before = content(file);
  const ProgramResult result = run(training);
  CHECK(result.exit_code == 1);
  CHECK(lines(result.errors) == 1);
  CHECK_THAT(result.errors, contains(reason));
  CHECK(content(file) == before);
  CHECK_FALSE(fs::exists(file.parent_path() / "model.h5"));
}

}  // namespace

TEST_CASE("a training replaces no configuration that was written by hand", "[cli][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "exp", config = out / "config.toml";
  write_text(config, "# my settings\ntask = \"copying\"\ndelay = 3\nhidden = 8\nbatch = 4\nsteps = 2\n");
  check_kept({"train", "--config", config, "--out", out}, config, "was written or edited by hand");
  // As the message advises.
  fs::rename(config, out / "mine.toml");
  check_success(run({"train", "--config", out / "mine.toml", "--out", out}));
  CHECK_THAT(content(out / "mine.toml"), contains("# my settings"));

  // That of a training is replaced by the next one, unless it was edited.
  fs::remove(out / "model.h5");
  fs::remove(out / "best.h5");
  check_success(run(train_copying(out, {"--steps", "3"})));
  CHECK_THAT(content(config), contains("steps = 3"));
  fs::remove(out / "model.h5");
  fs::remove(out / "best.h5");
  std::ofstream(config, std::ios::app) << "# a note\n";
  check_kept(train_copying(out, {"--steps", "4"}), config, "was written or edited by hand");
}

TEST_CASE("a training replaces no metrics and no sentences of another origin", "[cli][save]") {
  const TemporaryFolder folder;
  write_text(folder / "csv/metrics.csv", "epoch,accuracy\n1,0.5\n");
  check_kept(train_copying(folder / "csv", {"--steps", "2"}), folder / "csv/metrics.csv",
             "is not what orthornn train writes");
  write_text(folder / "tsv/sentences.tsv", "one\tuno\n");
  check_kept(train_copying(folder / "tsv", {"--steps", "2"}), folder / "tsv/sentences.tsv",
             "is of no training that is here");
}

TEST_CASE("a training that diverged can be started again in its folder", "[cli][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const ProgramResult diverged = run(train_copying(out, {"--steps", "50", "--cell", "free", "--lr", "1e30"}));
  CHECK(diverged.exit_code == 1);
  CHECK(fs::exists(out / "config.toml"));
  check_success(run(train_copying(out, {"--steps", "2"})));
}
