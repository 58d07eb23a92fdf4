#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace orthornn::testing {

/// The bytes of a file; "" when there is none.
inline std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Calls `function` in a child process, which may lower its limits and rights, and returns the message of
/// what it threw: "" for nothing, "killed" when the child did not end by itself.
template <class Function>
std::string message_from_child(const Function& function) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string message;
    try {
      function();
    } catch (const std::exception& error) {
      message = error.what();
    }
    const ssize_t written = write(ends[1], message.data(), message.size());
    _exit(written == static_cast<ssize_t>(message.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string message;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    message.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? message : "killed";
}

/// How a program ended and what it said.
struct ProgramResult {
  int exit_code;  // -1 when a signal ended it
  int signal;     // 0 when it ended by itself
  std::string output;
  std::string errors;
};

/// Runs a program with these arguments and, added to ours, these variables; waits for its end. What it says
/// is kept in files of the existing folder `scratch`.
inline ProgramResult run_program(std::vector<std::string> command,
                                 const std::map<std::string, std::string>& variables,
                                 const std::filesystem::path& scratch) {
  const std::string output = scratch / "output.txt";
  const std::string errors = scratch / "errors.txt";
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          content(output), content(errors)};
}

/// Variables for run_program: call number `n` about files in `folder` ends the program or, with `error`
/// ("EIO"), fails. `library` is the path of the library made of kill_at_call.c, which says more.
inline std::map<std::string, std::string> kill_at_call(const std::string& library,
                                                       const std::filesystem::path& folder, int n,
                                                       const std::string& error = "") {
  const char* options = std::getenv("ASAN_OPTIONS");
  return {
      {"LD_PRELOAD", library},
      {"KILL_AT_CALL_FOLDER", folder.string()},
      {"KILL_AT_CALL", std::to_string(n)},
      {"KILL_AT_CALL_ERRNO", error},
      {"ASAN_OPTIONS", (options == nullptr ? "" : std::string(options) + ":") + "verify_asan_link_order=0"}};
}

}  // namespace orthornn::testing
