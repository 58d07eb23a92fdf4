#include "io/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <system_error>

#include "io/descriptor.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

[[noreturn]] void run_child(int seconds, int report, const std::function<void()>& work) {
  // A crash is expected here: no core file, no signal handler of the program, no output of a sanitizer.
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) std::signal(signal, SIG_DFL);
  const rlimit no_core{0, 0}, time{static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds)};
  setrlimit(RLIMIT_CORE, &no_core);
  setrlimit(RLIMIT_CPU, &time);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  try {
    work();
  } catch (...) {  // the parent throws it again and reports it
  }
  const bool told = write(report, "1", 1) == 1;
  _exit(told ? 0 : 1);  // flushes and destroys no object of the parent
}

[[noreturn]] void throw_no_process(int error) {
  throw FileError(fmt::format("cannot make the process that reads files of strangers first: {}",
                              std::generic_category().message(error)));
}

}  // namespace

std::string end_of_child(int seconds, const std::function<void()>& work) {
  // The child reports its end through a pipe: a program that ignores SIGCHLD does not get its exit status.
  int ends[2];
  if (pipe(ends) != 0) throw_no_process(errno);
  const Descriptor report(ends[0]);
  const pid_t child = fork();
  if (child == 0) run_child(seconds, ends[1], work);
  const int error = errno;
  close(ends[1]);
  if (child < 0) throw_no_process(error);
  char told = 0;
  const ssize_t count = uninterrupted([&] { return read(report, &told, 1); });
  int status = 0;
  const pid_t ended = uninterrupted([&] { return waitpid(child, &status, 0); });
  if (count == 1) return "";
  if (ended < 0 || !WIFSIGNALED(status)) return "a failed check";
  if (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)
    return fmt::format("more than {} s of processor time, or killed", seconds);
  return fmt::format("signal {}", WTERMSIG(status));
}

}  // namespace orthornn
