#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace orthornn::program {

/// Files that a training could not write, on a disk that is full or gone: the training goes on, and they are
/// written as soon as they can be.
class UnwrittenFiles {
 public:
  /// `before_note` is called before something is said on standard error.
  explicit UnwrittenFiles(std::function<void()> before_note) : before_note_(std::move(before_note)) {}

  /// Calls `write`, which throws FileError where it cannot write the file. If so, it is kept, to be called
  /// again, until a later `write` of this file takes its place. Says so, once for all files until they are
  /// written.
  void write(const std::filesystem::path& file, std::function<void()> write);
  /// Tries to write them all.
  void try_again();
  /// Whether this file, as it should be, is not written.
  bool contain(const std::filesystem::path& file) const;
  /// Which files are not written, and why; "" for none.
  std::string text() const;

 private:
  struct Unwritten {
    std::filesystem::path file;
    std::function<void()> write;
    std::string why;
  };

  void note_if_done();

  std::function<void()> before_note_;
  std::vector<Unwritten> files_;
  /// When all were tried last.
  std::chrono::steady_clock::time_point tried_;
  bool noted_ = false;
};

}  // namespace orthornn::program
