#include "pages/gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "orthornn/core/error.hpp"
#include "pages/scratch_folder.hpp"
#include "pages/stop_on_signal.hpp"
#include "pages/whole_file.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

void check_system(int error) {
  if (error != 0) throw Error(fmt::format("gnuplot cannot be started: {}", std::strerror(error)));
}

/// Runs gnuplot with its outputs in these files. Returns its wait status, or nothing where it is not
/// installed. Throws Interrupted where a StopOnSignal lives and a stop is asked for; std::system would ignore
/// Ctrl-C.
std::optional<int> status_of_gnuplot(std::vector<std::string> arguments, const fs::path& output,
                                     const fs::path& errors) {
  arguments.insert(arguments.begin(), "gnuplot");
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  check_system(posix_spawn_file_actions_init(&files));
  const auto redirect = [&](int descriptor, const fs::path& file) {
    check_system(posix_spawn_file_actions_addopen(&files, descriptor, file.c_str(),
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0600));
  };
  redirect(STDOUT_FILENO, output);
  redirect(STDERR_FILENO, errors);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0], &files, nullptr, words.data(), environ);
  check_system(posix_spawn_file_actions_destroy(&files));
  if (error == ENOENT || error == EACCES) return std::nullopt;
  check_system(error);
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    if (stop_requested()) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (ended < 0) check_system(errno);
  leave_if_stop_requested();
  return status;
}

std::string drawn(const std::string& script) {
  const ScratchFolder folder("no plot can be drawn");
  const fs::path path = folder.path();
  if (!(std::ofstream(path / "script") << script << std::flush))
    throw Error(fmt::format("no plot can be drawn: '{}' cannot be written", path.string()));
  // Without the user's settings, and without GNUTERM: gnuplot does not start with a terminal that it lacks.
  unsetenv("GNUTERM");
  const std::optional<int> status =
      status_of_gnuplot({"-d", (path / "script").string()}, path / "svg", path / "errors");
  if (!status) throw Error(fmt::format("no plot can be drawn: {}", gnuplot_advice));
  if (*status != 0) {
    const std::string errors = read_whole_file(path / "errors");
    throw Error(fmt::format(
        "gnuplot could not draw a plot ({}): {}",
        WIFEXITED(*status) ? fmt::format("exit status {}", WEXITSTATUS(*status)) : "it was killed",
        errors.empty() ? "it does not say why" : errors.substr(0, 200)));
  }
  return read_whole_file(path / "svg");
}

}  // namespace

bool gnuplot_is_installed() { return status_of_gnuplot({"--version"}, "/dev/null", "/dev/null").has_value(); }

std::string run_gnuplot(const std::string& script) {
  const StopOnSignal stop_on_signal;  // or the folder would stay
  const std::string svg = drawn(script);
  leave_if_stop_requested();
  return svg;
}

}  // namespace orthornn::program
