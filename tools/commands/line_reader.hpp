#pragma once

#include <cstddef>
#include <string>

namespace orthornn::program {

/// Lines of a file descriptor, such as standard input.
class LineReader {
 public:
  /// Of a longer line only one byte more than so many is kept: enough to see that it is too long.
  static constexpr std::size_t longest_line = 65536;

  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  /// The next line without its end, LF or CR LF; false at the end of the input. Throws FileError where it
  /// cannot be read.
  bool next(std::string& line);
  /// Whether `next` would have to wait for somebody who writes.
  bool would_wait() const;

 private:
  bool fill();

  int descriptor_;
  std::string buffer_;
  std::size_t position_ = 0;
};

}  // namespace orthornn::program
