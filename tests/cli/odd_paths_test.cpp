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
    CHECK_NOTHROW(nlohmann::json::parse(result.output));
  }
  write_tiny_mnist(folder / "d\xff");
  check_told(train_mnist(folder / "d\xff", folder / "mnist", {"--steps", "1"}),
             "give the folder another name");
}
