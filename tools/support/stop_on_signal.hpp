#pragma once
// Ctrl-C while work is under way that can be saved or must be tidied up.

#include <array>
#include <csignal>

#include "orthornn/core/error.hpp"

namespace orthornn::program {

/// While it lives, Ctrl-C, SIGTERM and SIGHUP (the terminal goes) only ask for a stop; a second one, a tenth
/// of a second later or more, ends the program at once. What a process ignores it goes on ignoring, as under
/// nohup. One within another does nothing.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  static constexpr std::array signals_ = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals_.size()> before_{};
};

/// Whether a stop was asked for since the outermost StopOnSignal began. While it lives, this may change at
/// any time from false to true.
bool stop_requested();

/// Work was left because a stop was asked for.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// Throws Interrupted if a stop was asked for.
void leave_if_stop_requested();

}  // namespace orthornn::program
