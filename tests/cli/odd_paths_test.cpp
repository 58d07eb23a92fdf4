// Paths that a file system refuses, or that are no UTF-8: what the user is told is ours.

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

void check_told(const Arguments& arguments, const std::string& words) {
  const ProgramResult result = run(arguments);
  CAPTURE(arguments, result.errors);
  CHECK(result.exit_code != 0);
  CHECK(lines(result.errors) == 1);
  CHECK_THAT(result.errors, contains(words));
  for (const char* foreign : {"filesystem error", "json.exception", "basic_string"})
    CHECK(result.errors.find(foreign) == std::string::npos);
}

}  // namespace

TEST_CASE("a name that is too long and a loop of links are told in our words", "[cli][usage]") {
  const TemporaryFolder folder;
  const std::string longest = folder / std::string(300, 'a'), loop = folder / "loop";
  fs::create_symlink("loop", folder / "loop");
  const std::string in_loop = loop + "/run";
  check_told(train_copying(longest, {"--steps", "1"}), "File name too long");
  check_told(train_copying(in_loop, {"--steps", "1"}), "Too many levels of symbolic links");
  check_told(train_copying(longest, {"--steps", "1", "--resume"}), "there is no training to resume");
  check_told(train_copying(in_loop, {"--steps", "1", "--seeds", "2"}), "Too many levels of symbolic links");
  check_told({"eval", longest}, "File name too long");
}

TEST_CASE("paths that are no UTF-8 work, and JSON of them is valid", "[cli][eval]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "r\xff";
  check_success(run(train_copying(out, {"--steps", "1"})));
  for (const char* command : {"eval", "inspect"}) {
    const ProgramResult result = run({command, (out / "model.h5").string(), "--json"});
    check_success(result);
    CHECK(nlohmann::json::accept(result.output));
  }
}

TEST_CASE("data in a working folder that is no UTF-8 are found again from there", "[cli][eval][resume]") {
  const TemporaryFolder folder;
  const RunSettings there{.folder = folder / "cw\xff"};
  write_tiny_mnist(there.folder / "m1");
  check_success(run(train_mnist("m1", "run", {"--steps", "1"}), there));
  CHECK_THAT(content(there.folder / "run/config.toml"), contains("\ndata = \"m1\"\n"));
  check_success(run({"eval", "run/model.h5"}, there));
  check_success(run({"train", "--resume", "--steps", "2", "--out", "run"}, there));
}

TEST_CASE("data whose name is no UTF-8 are read, and config.toml does not name them", "[cli][eval]") {
  const TemporaryFolder folder;
  const std::string data = folder / "d\xff", model = folder / "run/model.h5";
  write_tiny_mnist(data);
  check_success(run(train_mnist(data, folder / "run", {"--steps", "1"})));
  CHECK_THAT(content(folder / "run/config.toml"), !contains("\ndata ="));
  check_success(run({"eval", model, "--data", data}));
  check_refused(run({"eval", model}, {.folder = folder.path()}), 1,
                {"data/mnist", "config.toml' names no data of this task; --data names another"});
}
