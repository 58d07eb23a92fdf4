// The progress of a training: plain lines, or on a terminal one line that is written over.

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <initializer_list>
#include <regex>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "support/occurrences.hpp"
#include "test_paths.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// The program on a terminal of its own, whose keys we press. It sees no GPU.
class OnTerminal {
 public:
  explicit OnTerminal(const Arguments& arguments, unsigned short columns = 160) {
    std::vector<std::string> words = {ORTHORNN_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ != 0) return;
    hide_gpus();
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;
  ~OnTerminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(terminal_);
  }

  /// Everything shown until `enough(shown)` or the end.
  template <class Enough>
  const std::string& read_until(const Enough& enough) {
    char buffer[4096];
    pollfd ready{terminal_, POLLIN, 0};
    while (!enough(shown_) && poll(&ready, 1, 60000) > 0) {
      const ssize_t count = read(terminal_, buffer, sizeof buffer);
      if (count <= 0) break;  // the program has closed its side
      shown_.append(buffer, static_cast<std::size_t>(count));
    }
    return shown_;
  }
  void press(char key) const { REQUIRE(write(terminal_, &key, 1) == 1); }
  int exit_code() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = 0;
  std::string shown_;
};

const std::string overwrite = "\r\033[K";

void check_says_how_it_goes(const std::string& line) {
  CAPTURE(line);
  for (const char* words : {"step ", " steps/s", "left ", "loss ", "guesser 0.904", "|I-A'A| "}) {
    CHECK_THAT(line, contains(words));
  }
}

}  // namespace

TEST_CASE("progress that goes to no terminal is plain lines, one every --log-every steps",
          "[cli][progress]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run(train_copying(folder / "run", {"--steps", "7", "--log-every", "3", "--eval-every", "6"}));
  check_success(result);
  CHECK(result.output.find('\r') == std::string::npos);
  CHECK(result.output.find('\033') == std::string::npos);
  std::vector<std::string> progress;
  std::string line;
  for (const char c : result.output) {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.starts_with("step ")) progress.push_back(line);
    line.clear();
  }
  CHECK(line == "");
  REQUIRE(progress.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const char* starts[] = {"step 3/7 ", "step 6/7 ", "step 7/7 "};
    CHECK_THAT(progress[i], Catch::Matchers::StartsWith(starts[i]));
    check_says_how_it_goes(progress[i]);
    CHECK((progress[i].find("validation") != std::string::npos) == (i > 0));
  }
}

TEST_CASE("progress on a terminal is one line that is written over, and Ctrl-C works",
          "[cli][progress][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  OnTerminal training(train_copying(out, {"--steps", "10000000", "--log-every", "1"}));
  training.read_until([](const std::string& shown) { return occurrences(shown, overwrite) >= 3; });
  training.press('\x03');
  const std::string shown = training.read_until([](const std::string&) { return false; });
  CHECK(training.exit_code() == 130);
  CAPTURE(shown);
  REQUIRE(occurrences(shown, overwrite) >= 3);
  // Written over, not line by line: all of the progress is between two line ends.
  const std::size_t first = shown.find(overwrite), last = shown.rfind(overwrite);
  CHECK(shown.find('\n', first) > last);
  const std::size_t second = shown.find(overwrite, first + 1);
  check_says_how_it_goes(shown.substr(first, second - first));
  // The message about the interruption has a line of its own.
  CHECK_THAT(shown, contains("\r\northornn: interrupted after step"));
  CHECK(steps_in(out / "model.h5") > 0);
}

TEST_CASE("a short training on a terminal ends with its result on a line of its own", "[cli][progress]") {
  const TemporaryFolder folder;
  OnTerminal training(train_copying(folder / "run", {"--steps", "3"}));
  const std::string shown = training.read_until([](const std::string&) { return false; });
  CHECK(training.exit_code() == 0);
  CHECK_THAT(shown, contains("step 3/3 "));
  CHECK_THAT(shown, contains("\r\ntrained after 3 steps"));
}

TEST_CASE("bench compare on a terminal shows what it measures, and wipes it before the tables",
          "[cli][progress]") {
  OnTerminal comparing({"bench", "compare", "--hidden", "6", "--reflections", "N", "--batch", "2", "--length",
                        "2", "--samples", "1"});
  const std::string shown = comparing.read_until([](const std::string&) { return false; });
  CHECK(comparing.exit_code() == 0);
  // Eight methods twice, two layers, and five on the Stiefel manifold.
  CHECK_THAT(shown, contains(overwrite + "1/23  training step, CWY, N = 6, L = 6  after 0:00"));
  CHECK_THAT(shown, contains(overwrite + "23/23  RGD-C-C on St(6, 6)  after 0:"));
  CHECK(shown.rfind(overwrite) < shown.find("medians of"));
}

TEST_CASE("progress fits the terminal, and leaves out what matters least", "[cli][progress]") {
  const TemporaryFolder folder;
  int number = 0;
  for (const unsigned short columns : std::initializer_list<unsigned short>{40, 60, 80, 120}) {
    CAPTURE(columns);
    OnTerminal training(
        train_copying(folder / std::to_string(++number), {"--steps", "3", "--eval-every", "1"}), columns);
    const std::string shown = training.read_until([](const std::string&) { return false; });
    CHECK(training.exit_code() == 0);
    const std::size_t at = shown.rfind(overwrite);
    REQUIRE(at != std::string::npos);
    const std::size_t start = at + overwrite.size();
    const std::string line = shown.substr(start, shown.find('\r', start) - start);
    CAPTURE(line);
    CHECK(line.size() < columns);
    for (const char* words : {"step 3/3", "loss "}) CHECK_THAT(line, contains(words));
    CHECK((line.find("validation") != std::string::npos) == (columns >= 80));
    CHECK((line.find("steps/s") != std::string::npos) == (columns >= 120));
  }
}

TEST_CASE("the width of a terminal that does not know it is that of COLUMNS", "[cli][progress]") {
  const TemporaryFolder folder;
  setenv("COLUMNS", "30", 1);
  OnTerminal training(train_copying(folder / "run", {"--steps", "3"}), 0);
  unsetenv("COLUMNS");
  const std::string shown = training.read_until([](const std::string&) { return false; });
  CHECK(training.exit_code() == 0);
  const std::size_t start = shown.rfind(overwrite) + overwrite.size();
  const std::string line = shown.substr(start, shown.find('\r', start) - start);
  CHECK_THAT(line, contains("step 3/3"));
  CHECK(line.size() < 30);
}

TEST_CASE("an evaluation of a long sequence says after two seconds how far it is", "[cli][progress][long]") {
  const TemporaryFolder folder;
  check_success(run({"train", "words", "--group", "Z2", "--length", "4", "--cell", "gru", "--hidden", "8",
                     "--steps", "1", "--out", folder / "run"}));
  OnTerminal evaluating({"eval", folder / "run/model.h5", "--lengths", "300000"});
  const std::string& shown = evaluating.read_until(
      [](const std::string& text) { return text.find("evaluating length 300000: ") != std::string::npos; });
  CHECK_THAT(shown, contains("evaluating length 300000: "));
}

TEST_CASE("the progress of an evaluation that goes to no terminal is a plain line after two seconds",
          "[cli][progress][long]") {
  const TemporaryFolder folder;
  check_success(run({"train", "words", "--group", "Z2", "--length", "4", "--cell", "gru", "--hidden", "8",
                     "--steps", "1", "--out", folder / "run"}));
  const Orthornn evaluating({"eval", folder / "run/model.h5", "--lengths", "300000"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::string errors;
  while (errors.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    errors = evaluating.errors_so_far();
  }
  static const std::regex line("evaluating length 300000: [0-9]+ of [0-9]+ batches, 0:0[2-9]\n");
  CAPTURE(errors);
  CHECK(std::regex_match(errors, line));
}
