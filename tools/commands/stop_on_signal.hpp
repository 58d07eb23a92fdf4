#pragma once
// Ctrl-C while work is under way that can be saved or must be tidied up.

#include <csignal>

#include "orthornn/core/error.hpp"

namespace orthornn::program {

/// While it lives, Ctrl-C, SIGTERM and SIGHUP (the terminal goes) only ask for a stop; a second one ends the
/// program at once.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
  struct sigaction hang_up_ {};
};

/// Whether a stop was asked for. It may change at any time, from false to true.
bool stop_requested();

/// Work was left because a stop was asked for.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// Throws Interrupted if a stop was asked for.
void leave_if_stop_requested();

}  // namespace orthornn::program
