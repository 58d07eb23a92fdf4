#include "support/stop_on_signal.hpp"

#include <ctime>

namespace orthornn::program {
namespace {

volatile std::sig_atomic_t requested = 0;
int living = 0;
/// When the first signal came. Handlers alone use it, and they do not interrupt one another.
timespec first_signal{};

/// Programs like `timeout` signal a process and its group, so that one request arrives twice.
constexpr double same_request_seconds = 0.1;

void ask_for_stop(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (requested == 0) {
    first_signal = now;
    requested = 1;
    return;
  }
  const double seconds = static_cast<double>(now.tv_sec - first_signal.tv_sec) +
                         1e-9 * static_cast<double>(now.tv_nsec - first_signal.tv_nsec);
  if (seconds < same_request_seconds) return;
  std::signal(signal, SIG_DFL);
  raise(signal);  // the default action, as soon as this returns
}

}  // namespace

StopOnSignal::StopOnSignal() {
  if (living++ > 0) return;
  requested = 0;
  struct sigaction action {};
  action.sa_handler = ask_for_stop;
  for (const int signal : signals_) sigaddset(&action.sa_mask, signal);
  // Restarted, a write to a pipe that is full goes on waiting; else it would fail, and the training with
  // it.
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    sigaction(signals_[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals_[i], &action, nullptr);
  }
}

StopOnSignal::~StopOnSignal() {
  if (--living > 0) return;
  for (std::size_t i = 0; i < signals_.size(); ++i) sigaction(signals_[i], &before_[i], nullptr);
}

bool stop_requested() { return requested != 0; }

void leave_if_stop_requested() {
  if (stop_requested()) throw Interrupted();
}

}  // namespace orthornn::program
