#pragma once
// The one exception family of the library. Every message says what was expected, what was found, and what to
// do.

#include <stdexcept>
#include <string>

namespace orthornn {

/// Base of everything that orthornn throws on purpose. The message says what was expected and what was found.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Error of shapes that do not fit together; the message names the tensors and the shapes found and expected.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// Error of a value outside its domain: a zero reflection vector, a NaN, a negative size, an unknown name.
class ValueError : public Error {
 public:
  using Error::Error;
};

/// Error of a device that this build or this machine does not have, or that cannot do what was asked for.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// Error of a file that is missing, damaged, foreign, or cannot be written.
class FileError : public Error {
 public:
  using Error::Error;
};

/// Error of a file that is sound, but of another model or training than it is asked for.
class MismatchError : public FileError {
 public:
  /// The message is the name of the file, and then the reason.
  MismatchError(const std::string& file, const std::string& reason)
      : FileError(file + " " + reason), reason_(reason) {}
  /// What differs, without the name of the file.
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

}  // namespace orthornn
