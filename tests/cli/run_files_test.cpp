// Files in a run directory that are the user's own.

#include <initializer_list>
#include <sstream>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/train_numbers.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

/// In a folder that is made for it.
void write_in_new_folder(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  write_text(file, text);
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
  write_in_new_folder(config,
                      "# my settings\ntask = \"copying\"\ndelay = 3\nhidden = 8\nbatch = 4\nsteps = 2\n");
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
  write_in_new_folder(folder / "csv/metrics.csv", "epoch,accuracy\n1,0.5\n");
  check_kept(train_copying(folder / "csv", {"--steps", "2"}), folder / "csv/metrics.csv",
             "is not what orthornn train writes");
  const fs::path sentences = folder / "tsv/sentences.tsv";
  write_in_new_folder(sentences, "one\tuno\n");
  check_kept(train_numbers(folder, folder / "tsv", {"--steps", "1"}), sentences,
             "has other sentences than this training");
  // A training of another task writes no such file.
  check_success(run(train_copying(folder / "tsv", {"--steps", "2"})));
  CHECK(content(sentences) == "one\tuno\n");
}

TEST_CASE("a resumption keeps a config.toml that was edited", "[cli][save][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", config = out / "config.toml";
  const Arguments resume = {"train", "--resume", "--out", out.string()};
  check_success(run(train_copying(out, {"--steps", "2"})));
  // Not edited: it gets the new settings.
  check_success(run(resume + Arguments{"--steps", "3"}));
  CHECK_THAT(content(config), contains("\nsteps = 3\n"));

  std::string edited = content(config);
  edited.replace(edited.find("\nsteps = 3\n"), 11, "\n# my notes\nsteps = 4  # one more\n");
  write_text(config, edited);
  check_success(run(resume));
  CHECK(content(config) == edited);
  CHECK(steps_in(out / "model.h5") == 4);

  const ProgramResult other = run(resume + Arguments{"--steps", "5"});
  CHECK(other.exit_code == 0);
  CHECK(lines(other.errors) == 1);
  CHECK_THAT(other.errors, contains(config.string() + "' was edited by hand"));
  CHECK_THAT(other.errors, contains("It has steps 4, and this training has 5"));
  CHECK(content(config) == edited);
  CHECK(steps_in(out / "model.h5") == 5);
}

TEST_CASE("a resumption keeps sentences.tsv", "[cli][save][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", sentences = out / "sentences.tsv";
  check_success(run(train_numbers(folder, out, {"--steps", "1"})));
  const std::string before = content(sentences);
  const auto check_resumed = [&](const std::string& steps, const std::string& expected) {
    check_success(run({"train", "--resume", "--out", out.string(), "--steps", steps}));
    CHECK(content(sentences) == expected);
  };
  write_text(sentences, "4 2\tforty two\n");
  check_resumed("2", "4 2\tforty two\n");
  fs::remove(sentences);
  check_resumed("3", before);

  // A training that begins beside those of one without a model.
  fs::remove(out / "model.h5");
  fs::remove(out / "best.h5");
  check_success(run(train_numbers(folder, out, {"--steps", "1"})));
  CHECK(content(sentences) == before);
  fs::remove(out / "model.h5");
  fs::remove(out / "best.h5");
  write_text(sentences, "4 2\tforty two\n");
  check_kept(train_numbers(folder, out, {"--steps", "1"}), sentences,
             "has other sentences than this training");
}

TEST_CASE("a resumption finds the columns of metrics by their names", "[cli][save][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", metrics = out / "metrics.csv";
  const Arguments train{"train",   "words", "--group",      "S3", "--length", "4", "--hidden", "8",
                        "--batch", "4",     "--eval-every", "1",  "--steps",  "1", "--out",    out.string()};
  check_success(run(train));
  const std::string before = content(metrics);
  // Of a version whose task has one more metric, before the last.
  std::string other = before;
  other.insert(other.find(",sequence_accuracy"), ",distance");
  other.insert(other.rfind(','), ",7");
  write_text(metrics, other);
  check_success(run({"train", "--resume", "--out", out.string(), "--steps", "2"}));
  CHECK_THAT(content(metrics), Catch::Matchers::StartsWith(before));
}

TEST_CASE("a training of the first version is resumed, and gets the later columns", "[cli][save][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", config = out / "config.toml", metrics = out / "metrics.csv";
  check_success(run(train_copying(out, {"--steps", "2", "--log-every", "1"})));
  const std::string settings = content(config).substr(content(config).find('\n'));
  write_text(config, "# orthornn 0.1.0 train: every setting of this run; use it with --config" + settings);
  std::istringstream rows(content(metrics));
  std::string old_rows;
  for (std::string row; std::getline(rows, row);) old_rows += row.substr(0, row.rfind(',')) + "\n";
  write_text(metrics, old_rows);
  REQUIRE_THAT(old_rows, Catch::Matchers::StartsWith("step,seconds,") && contains(",accuracy\n1,"));

  check_success(run({"train", "--resume", "--out", out.string()}));  // nothing is left
  const ProgramResult resumed = run({"train", "--resume", "--steps", "3", "--out", out.string()});
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.errors, contains("is of an earlier version"));
  const std::string found = content(metrics);
  CHECK(lines(found) == 4);
  std::istringstream new_rows(found);
  for (std::string row; std::getline(new_rows, row);) CHECK(std::ranges::count(row, ',') == 8);
  CHECK_THAT(found, contains(",accuracy,reflection_norm\n1,"));
}

TEST_CASE("a training that diverged can be started again in its folder", "[cli][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const ProgramResult diverged = run(train_copying(out, {"--steps", "50", "--cell", "free", "--lr", "1e30"}));
  CHECK(diverged.exit_code == 1);
  CHECK(fs::exists(out / "config.toml"));
  check_success(run(train_copying(out, {"--steps", "2"})));
}
