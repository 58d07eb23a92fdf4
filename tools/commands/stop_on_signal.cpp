#include "commands/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

volatile std::sig_atomic_t requested = 0;

}  // namespace

StopOnSignal::StopOnSignal() {
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  // Restarted, a write to a pipe that is full goes on waiting; else it would fail, and the training with
  // it.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
  sigaction(SIGHUP, &action, &hang_up_);
}

StopOnSignal::~StopOnSignal() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGHUP, &hang_up_, nullptr);
}

bool stop_requested() { return requested != 0; }

void leave_if_stop_requested() {
  if (stop_requested()) throw Interrupted();
}

}  // namespace orthornn::program
