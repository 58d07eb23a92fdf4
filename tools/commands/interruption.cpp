#include "commands/interruption.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <initializer_list>

namespace orthornn::program {
namespace {

std::atomic<const char*> line_to_say{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free);  // or a signal handler could not read it
/// Children that read files of strangers have the handler too, and nothing to say.
std::atomic<pid_t> speaker{0};
std::atomic<bool> on_terminal{false};

void say(const char* text) {
  // There is nobody to tell where this fails.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void handle(int signal) {
  if (getpid() == speaker) {
    if (on_terminal) say("\n");  // a progress line may stand there
    say("orthornn: ");
    say(line_to_say);
    say("\n");
  }
  raise(signal);  // the default action, as soon as this returns
}

}  // namespace

void say_when_interrupted(const char* line) {
  line_to_say = line;
  if (speaker == getpid()) return;
  speaker = getpid();
  on_terminal = isatty(STDERR_FILENO) != 0;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {
    }, before{};
    action.sa_handler = handle;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

}  // namespace orthornn::program
