#include "pages/piped_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "orthornn/core/error.hpp"

namespace orthornn::program {
namespace {

[[noreturn]] void fail(const std::string& program, int error) {
  throw Error(fmt::format("cannot run {}: {}", program, std::strerror(error)));
}

/// Both ends of a pipe. Started programs inherit only the ends that are given to them.
class Pipe {
 public:
  explicit Pipe(const std::string& program) {
    if (pipe2(ends_, O_CLOEXEC) != 0) fail(program, errno);
  }
  ~Pipe() {
    close_reading();
    close_writing();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void close_reading() { close_end(ends_[0]); }
  void close_writing() { close_end(ends_[1]); }

 private:
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }

  int ends_[2];
};

/// Ignores SIGPIPE: a child that ends before it has read everything must not end this program.
class WithoutBrokenPipe {
 public:
  WithoutBrokenPipe() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~WithoutBrokenPipe() { sigaction(SIGPIPE, &before_, nullptr); }
  WithoutBrokenPipe(const WithoutBrokenPipe&) = delete;
  WithoutBrokenPipe& operator=(const WithoutBrokenPipe&) = delete;

 private:
  struct sigaction before_ {};
};

/// Calls posix_spawnp with pipes as the three standard files. Returns the error number, 0 for success.
int start(const std::vector<std::string>& command, const Pipe& in, const Pipe& out, const Pipe& err,
          pid_t& child) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.reading(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out.writing(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.writing(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &broken_pipe);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

/// Appends the available bytes; returns false at the end of the stream.
bool read_some(int end, std::string& text) {
  char buffer[65536];
  const ssize_t count = read(end, buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

}  // namespace

std::optional<PipedResult> run_piped(const std::vector<std::string>& command, std::string_view input) {
  Pipe in(command[0]), out(command[0]), err(command[0]);
  const WithoutBrokenPipe without_broken_pipe;
  pid_t child = 0;
  const int error = start(command, in, out, err, child);
  // Folders of PATH that are unreadable or missing contain no program either.
  if (error == ENOENT || error == EACCES || error == ENOTDIR) return std::nullopt;
  if (error != 0) fail(command[0], error);
  in.close_reading();
  out.close_writing();
  err.close_writing();
  fcntl(in.writing(), F_SETFL, O_NONBLOCK);

  // The program may write before it has read everything. Both directions are served at once to avoid a
  // deadlock.
  PipedResult result{.exit_code = -1, .output = "", .errors = ""};
  while (out.reading() >= 0 || err.reading() >= 0) {
    if (input.empty()) in.close_writing();
    pollfd ends[] = {{in.writing(), POLLOUT, 0}, {out.reading(), POLLIN, 0}, {err.reading(), POLLIN, 0}};
    if (poll(ends, 3, -1) < 0) continue;
    if (ends[0].revents != 0) {
      const ssize_t count = write(in.writing(), input.data(), input.size());
      if (count > 0) input.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0 && errno != EAGAIN && errno != EINTR) input = {};
    }
    if (ends[1].revents != 0 && !read_some(out.reading(), result.output)) out.close_reading();
    if (ends[2].revents != 0 && !read_some(err.reading(), result.errors)) err.close_reading();
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace orthornn::program
