#include "commands/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <string>

#include "commands/program.hpp"

namespace orthornn::program {
namespace {

/// errno of the first write that failed.
int first_error = 0;
bool goes_on = false;

std::string what_happened(int error) {
  if (error == EPIPE) return "standard output has no reader any more";
  if (error == EBADF) return "standard output is closed";
  return fmt::format("cannot write to standard output: {}", std::strerror(error));
}

/// Writes for `stdout`. Where the command goes on, it says that all is written: fmt::print would throw.
ssize_t write_output(void* /*cookie*/, const char* bytes, std::size_t size) {
  std::size_t written = 0;
  while (written < size) {
    const ssize_t count = write(STDOUT_FILENO, bytes + written, size - written);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      const int error = errno;
      if (goes_on && first_error == 0) note(what_happened(error) + "; going on without it");
      if (first_error == 0) first_error = error;
      errno = error;
      return goes_on ? static_cast<ssize_t>(size) : 0;
    }
  }
  return static_cast<ssize_t>(size);
}

}  // namespace

void open_standard_streams() {
  // Each the wrong way round, so that its use is the error that it is with a closed one.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number, as those before it are open.
    [[maybe_unused]] const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::FILE* stream =
      fopencookie(nullptr, "w", {.read = nullptr, .write = write_output, .seek = nullptr, .close = nullptr});
  if (stream == nullptr) return;
  std::setvbuf(stream, nullptr, isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF, BUFSIZ);
  stdout = stream;
}

void go_on_without_output() {
  goes_on = true;
  std::signal(SIGPIPE, SIG_IGN);
}

bool goes_on_without_output() { return goes_on; }

int flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 && first_error == 0) first_error = errno;
  return first_error;
}

int descriptor_of(std::FILE* stream) { return stream == stdout ? STDOUT_FILENO : fileno(stream); }

}  // namespace orthornn::program
