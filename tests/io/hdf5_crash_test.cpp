// What is left of an HDF5 file where saving ends early.

#include <sys/resource.h>

#include <csignal>
#include <string>
#include <vector>

#include "io/hdf5_files.hpp"
#include "orthornn/io/hdf5.hpp"
#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"
#include "test_paths.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a full disk leaves the old HDF5 file whole", "[io][hdf5]") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file.h5";
  write_small_file(file);
  const std::string old = content(file);
  const std::string message = message_from_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10000, 10000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Hdf5Writer writer;
    writer.dataset("large", Tensor<double>(Shape{100, 100}));
    writer.commit(file);
  });
  CHECK_THAT(message, contains("file.h5") && contains("File too large"));
  CHECK(content(file) == old);
  CHECK_FALSE(fs::exists(folder / ".file.h5.tmp"));
}

// The three tests that follow run save_twice, which saves A, then B, and let its N-th call not go well, for
// every N that there is.
namespace {

const char* const save_twice_program = ORTHORNN_SAVE_TWICE;
const char* const kill_at_call_library = ORTHORNN_KILL_AT_CALL;

struct Contents {
  std::string a;
  std::string b;

  explicit Contents(const fs::path& scratch) {
    const std::string file = scratch / "expected.h5";
    REQUIRE(run_program({save_twice_program, file, "first"}, {}, scratch).exit_code == 0);
    a = content(file);
    REQUIRE(run_program({save_twice_program, file}, {}, scratch).exit_code == 0);
    b = content(file);
    REQUIRE(a != b);
    REQUIRE(Hdf5Reader(file).string_attribute("/", "content") == "B");
  }
  // Is the file what it may be after the program said `output`?
  bool allow(const fs::path& file, const std::string& output) const {
    const std::string found = content(file);
    if (output.find("saved B") != std::string::npos) return found == b;
    if (output.find("saved A") != std::string::npos) return found == a || found == b;
    return found == a || !fs::exists(file);
  }
};

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("a kill at any call leaves the old file or the new one", "[io][hdf5][crash][long]") {
  const TemporaryFolder folder, scratch;
  const fs::path file = folder / "file.h5";
  const Contents contents(scratch.path());
  std::vector<std::string> calls;
  while (true) {
    fs::remove(file);
    const auto variables =
        kill_at_call(kill_at_call_library, folder.path(), static_cast<int>(calls.size()) + 1);
    const auto result = run_program({save_twice_program, file}, variables, scratch.path());
    CAPTURE(result.errors, result.output);
    REQUIRE(contents.allow(file, result.output));
    if (!says(result.errors, "kill_at_call:")) {
      REQUIRE(result.exit_code == 0);
      break;
    }
    REQUIRE(result.signal == SIGKILL);
    calls.push_back(result.errors);
    // The next save is not disturbed by what is left.
    REQUIRE(run_program({save_twice_program, file}, {}, scratch.path()).exit_code == 0);
    REQUIRE(content(file) == contents.b);
    REQUIRE_FALSE(fs::exists(folder / ".file.h5.tmp"));
  }
  // A kill does not empty the disk's caches as a power cut does. So, for that: the bytes are forced to disk
  // right before the file takes its name, and the folder right after.
  int renames = 0;
  for (std::size_t i = 1; i + 1 < calls.size(); ++i) {
    if (!says(calls[i], "rename of")) continue;
    CHECK_THAT(calls[i - 1], contains("fsync of") && contains("/.file.h5.tmp"));
    CHECK_THAT(calls[i + 1], contains("fsync of " + fs::canonical(folder.path()).string() + "\n"));
    ++renames;
  }
  CHECK(renames == 2);
}

TEST_CASE("an error of any call is told and leaves the old file or the new one", "[io][hdf5][crash][long]") {
  const TemporaryFolder folder, scratch;
  const fs::path file = folder / "file.h5";
  const Contents contents(scratch.path());
  const std::string error = GENERATE(as<std::string>{}, "ENOSPC", "EIO");
  for (int n = 1;; ++n) {
    fs::remove(file);
    const auto variables = kill_at_call(kill_at_call_library, folder.path(), n, error);
    const auto result = run_program({save_twice_program, file}, variables, scratch.path());
    CAPTURE(result.errors, result.output);
    REQUIRE(contents.allow(file, result.output));
    REQUIRE_FALSE(fs::exists(folder / ".file.h5.tmp"));
    if (!says(result.errors, "kill_at_call:")) {
      REQUIRE(result.exit_code == 0);
      REQUIRE(n > 10);
      break;
    }
    REQUIRE(result.exit_code == 1);
    REQUIRE_THAT(result.errors,
                 contains("save_twice: cannot write '" + file.string() +
                          "': " + (error == "EIO" ? "Input/output error" : "No space left on device")));
  }
}

TEST_CASE("a call that a signal interrupts is made again", "[io][hdf5][crash]") {
  const TemporaryFolder folder, scratch;
  const fs::path file = folder / "file.h5";
  const Contents contents(scratch.path());
  for (int n = 1;; ++n) {
    fs::remove(file);
    const auto result =
        run_program({save_twice_program, file}, kill_at_call(kill_at_call_library, folder.path(), n, "EINTR"),
                    scratch.path());
    CAPTURE(result.errors, result.output);
    if (says(result.errors, "rename of")) continue;  // not a call that signals interrupt
    REQUIRE(result.exit_code == 0);
    REQUIRE(content(file) == contents.b);
    if (!says(result.errors, "kill_at_call:")) break;
  }
}
