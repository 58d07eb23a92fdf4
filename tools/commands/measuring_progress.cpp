#include "commands/measuring_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "commands/terminal_line.hpp"
#include "pages/number_text.hpp"

namespace orthornn::program {

MeasuringProgress::MeasuringProgress(std::size_t count)
    : terminal_(isatty(STDERR_FILENO) != 0), count_(count) {}

MeasuringProgress::~MeasuringProgress() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void MeasuringProgress::begin(const std::string& what) {
  ++number_;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ && now - shown_ < std::chrono::seconds(2)) return;
  shown_ = now;
  const std::string passed = duration(std::chrono::duration<double>(now - start_).count());
  const std::string text =
      fitted_line({{0, fmt::format("{}/{}", number_, count_)}, {1, "  " + what}, {2, "  after " + passed}},
                  terminal_ ? terminal_columns(STDERR_FILENO) : std::numeric_limits<Index>::max());
  std::fputs((terminal_ ? "\r\033[K" + text : text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace orthornn::program
