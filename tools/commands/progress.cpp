#include "commands/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "commands/terminal_line.hpp"
#include "core/signals_blocked.hpp"
#include "support/number_text.hpp"

namespace orthornn::program {

using std::chrono::seconds;

Progress::Progress(std::string doing, Index all, std::string unit)
    : doing_(std::move(doing)), unit_(std::move(unit)), all_(all), terminal_(isatty(STDERR_FILENO) != 0) {
  const SignalsBlocked blocked;
  reporter_ = std::thread([this] { report(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  reporter_.join();
  if (open_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(Index count) {
  const std::lock_guard lock(mutex_);
  done_ += count;
}

void Progress::report() {
  std::unique_lock lock(mutex_);
  const Clock::duration pause =
      terminal_ ? Clock::duration(std::chrono::milliseconds(500)) : Clock::duration(seconds(30));
  for (Clock::time_point due = start_ + seconds(2); !ended_.wait_until(lock, due, [this] { return over_; });
       due += pause) {
    const std::string passed = duration(std::chrono::duration<double>(Clock::now() - start_).count());
    const std::string text =
        fitted_line({{1, doing_ + (all_ > 0 ? ": " : "")},
                     {0, all_ > 0 ? fmt::format("{} of {} {}", done_, all_, unit_) : ""},
                     {2, ", " + passed}},
                    terminal_ ? terminal_columns(STDERR_FILENO) : std::numeric_limits<Index>::max());
    std::fputs((terminal_ ? "\r\033[K" + text : text + "\n").c_str(), stderr);
    open_ = terminal_;
  }
}

}  // namespace orthornn::program
