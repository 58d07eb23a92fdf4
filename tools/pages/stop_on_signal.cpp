#include "pages/stop_on_signal.hpp"

namespace orthornn::program {
namespace {

volatile std::sig_atomic_t requested = 0;
int living = 0;

}  // namespace

StopOnSignal::StopOnSignal() {
  if (living++ > 0) return;
  requested = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  // Restarted, a write to a pipe that is full goes on waiting; else it would fail, and the training with
  // it.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
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
