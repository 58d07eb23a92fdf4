#pragma once
// Runs the program `orthornn` as a user would, with checks of how it ended and what it said.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;  // Catch2 2.13 has it outside of all namespaces
#endif

using Arguments = std::vector<std::string>;

struct RunSettings {
  /// Added to our environment.
  std::map<std::string, std::string> variables = {};
  /// Where it runs; empty: where we do.
  std::filesystem::path folder = {};
  /// Files cannot grow beyond it; 0: any size.
  rlim_t largest_file = 0;
  /// Its own memory (RLIMIT_DATA, without the code of libraries) cannot grow beyond it; 0: any size.
  rlim_t largest_memory = 0;
  /// Root becomes someone with no rights.
  bool as_user = false;
  /// The file that standard input comes from; empty: it has nothing.
  std::string input = {};
  /// Where standard output goes; empty: to ProgramResult::output.
  std::string output = {};
  /// Standard output is a pipe whose reader has ended.
  bool without_reader = false;
  /// Standard descriptors, 0 to 2, that are closed.
  std::vector<int> closed = {};
  /// Whether it sees this machine's GPUs, or emulated ones.
  bool gpu = false;
};

/// In a child process, before the program starts: it sees neither this machine's GPUs nor emulated ones.
inline void hide_gpus() {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  setenv("ORTHORNN_EMULATED_DEVICES", "0", 1);
}

/// The program while it runs. No terminal is in sight.
class Orthornn {
 public:
  explicit Orthornn(const Arguments& arguments, const RunSettings& settings = {}) {
    std::vector<std::string> words = {ORTHORNN_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string output = settings.output.empty() ? output_file() : settings.output;
    const std::string errors = scratch_ / "errors";
    child_ = fork();
    if (child_ != 0) return;
    dup2(open(settings.input.empty() ? "/dev/null" : settings.input.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::signal(SIGPIPE, SIG_DFL);  // as a shell starts programs
    if (int ends[2]; settings.without_reader && pipe(ends) == 0) {
      close(ends[0]);
      dup2(ends[1], STDOUT_FILENO);
    }
    for (const int descriptor : settings.closed) close(descriptor);
    // Tests run side by side, and models of this size gain nothing from threads that wait for one another.
    setenv("OMP_NUM_THREADS", "1", 1);
    if (!settings.gpu) hide_gpus();
    for (const auto& [name, value] : settings.variables) setenv(name.c_str(), value.c_str(), 1);
    if (!settings.folder.empty() && chdir(settings.folder.c_str()) != 0) _exit(126);
    if (settings.largest_file > 0) {
      const rlimit limit{settings.largest_file, settings.largest_file};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(125);
    }
    if (settings.largest_memory > 0) {
      const rlimit limit{settings.largest_memory, settings.largest_memory};
      if (setrlimit(RLIMIT_DATA, &limit) != 0) _exit(125);
    }
    if (settings.as_user && geteuid() == 0 && setuid(65534) != 0) _exit(124);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  Orthornn(const Orthornn&) = delete;
  Orthornn& operator=(const Orthornn&) = delete;
  ~Orthornn() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  void send(int signal) const { kill(child_, signal); }
  /// Whether it has a handler for the signal, as the mask SigCgt of /proc says. Before it runs as the program
  /// it has those of the tests.
  bool catches(int signal) const {
    const std::string process = "/proc/" + std::to_string(child_), key = "SigCgt:";
    std::error_code gone;
    if (!std::filesystem::equivalent(process + "/exe", ORTHORNN_PROGRAM, gone)) return false;
    const std::string status = content(process + "/status");
    const std::size_t at = status.find(key);
    return at != std::string::npos &&
           (std::stoull(status.substr(at + key.size()), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  std::string output_so_far() const { return content(output_file()); }
  std::string errors_so_far() const { return content(scratch_ / "errors"); }

  /// Waits for its end; one that takes minutes hangs and is killed.
  ProgramResult wait() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    int status = 0;
    while (waitpid(child_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) kill(child_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    child_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
            output_so_far(), without_progress(errors_so_far())};
  }

 private:
  std::string output_file() const { return scratch_ / "output"; }

  /// The lines that tell how far a command is (tools/commands/progress.hpp) come on a slow machine alone, so
  /// they are no errors.
  static std::string without_progress(const std::string& errors) {
    std::string rest;
    for (std::size_t at = 0; at < errors.size();) {
      const std::size_t end = std::min(errors.find('\n', at), errors.size() - 1) + 1;
      const std::string line = errors.substr(at, end - at);
      int matched = 0;
      if (const std::size_t colon = line.rfind(": "); colon != std::string::npos)
        std::sscanf(line.c_str() + colon, ": %*d of %*d %*[a-z], %*d:%*d%n", &matched);
      if (matched == 0) std::sscanf(line.c_str(), "reading the data, %*d:%*d%n", &matched);
      if (matched == 0) rest += line;
      at = end;
    }
    return rest;
  }

  TemporaryFolder scratch_;
  pid_t child_ = 0;
};

inline ProgramResult run(const Arguments& arguments, const RunSettings& settings = {}) {
  return Orthornn(arguments, settings).wait();
}

inline Arguments operator+(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The command of a small training, with more options behind it.
inline Arguments train_copying(const std::filesystem::path& out, const Arguments& more = {}) {
  return Arguments{"train", "copying", "--delay", "3",     "--hidden",
                   "8",     "--batch", "4",       "--out", out.string()} +
         more;
}

inline long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

/// Makes writes of this file fail, as on a full disk, until the folder that it returns is removed: that has
/// the name of the temporary file.
inline std::filesystem::path block_writes(const std::filesystem::path& file) {
  const std::filesystem::path blocking = file.parent_path() / ("." + file.filename().string() + ".tmp");
  std::filesystem::create_directories(blocking);
  return blocking;
}

/// It did what it was asked to and complained of nothing.
inline void check_success(const ProgramResult& result) {
  CHECK(result.errors == "");
  CHECK(result.signal == 0);
  REQUIRE(result.exit_code == 0);
}

/// It ended with this exit code and one clear line on standard error that holds these words.
inline void check_refused(const ProgramResult& result, int exit_code,
                          std::initializer_list<std::string> words) {
  CHECK(result.signal == 0);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.errors, Catch::Matchers::StartsWith("orthornn: "));
  CHECK(lines(result.errors) == 1);
  CHECK(result.errors.size() < 500);
  for (const std::string& word : words) CHECK_THAT(result.errors, contains(word));
}

}  // namespace orthornn::testing
