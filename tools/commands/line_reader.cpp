#include "commands/line_reader.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "orthornn/core/error.hpp"

namespace orthornn::program {

/// Reads more into the buffer, all of which has been used; false at the end of the input.
bool LineReader::fill() {
  constexpr std::size_t block = 1 << 16;
  buffer_.resize(block);
  position_ = 0;
  ssize_t count = 0;
  do {
    count = read(descriptor_, buffer_.data(), block);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw FileError(fmt::format("standard input cannot be read: {}", std::strerror(errno)));
  buffer_.resize(static_cast<std::size_t>(count));
  return count > 0;
}

bool LineReader::next(std::string& line) {
  line.clear();
  bool found = false;
  while (position_ < buffer_.size() || fill()) {
    found = true;
    const std::size_t end = std::min(buffer_.find('\n', position_), buffer_.size());
    const std::size_t room = longest_line + 1 - std::min(line.size(), longest_line + 1);
    line.append(buffer_, position_, std::min(end - position_, room));
    position_ = end;
    if (end == buffer_.size()) continue;
    ++position_;
    break;
  }
  if (line.ends_with('\r')) line.pop_back();
  return found;
}

bool LineReader::would_wait() const {
  if (buffer_.find('\n', position_) != std::string::npos) return false;
  pollfd input{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return poll(&input, 1, 0) == 0;
}

}  // namespace orthornn::program
