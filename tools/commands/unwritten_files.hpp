#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "commands/program.hpp"

namespace orthornn::program {

/// Files that trainings could not write, on a disk that is full or gone: the trainings go on, and the files
/// are written as soon as they can be. What writes a file may outlive the training that it is of.
class UnwrittenFiles {
 public:
  /// Calls `write`, which throws FileError where it cannot write the file. If so, it is kept, to be called
  /// again, until a later `write` of this file takes its place. Says so, once for all files until they are
  /// written; `before_note` is called before something is said on standard error.
  void write(const std::filesystem::path& file, std::function<void()> write,
             const std::function<void()>& before_note = {});
  /// Tries to write them all.
  void try_again(const std::function<void()>& before_note = {});
  /// Whether this file, as it should be, is not written.
  bool contain(const std::filesystem::path& file) const;
  /// Which files are not written, and why; "" for none. With a folder: those below it, named from there.
  std::string text(const std::filesystem::path& folder = {}) const;

 private:
  struct Unwritten {
    std::filesystem::path file;
    std::function<void()> write;
    std::string why;
  };

  void note_if_done(const std::function<void()>& before_note);

  std::vector<Unwritten> files_;
  /// When all were tried last.
  std::chrono::steady_clock::time_point tried_;
  bool noted_ = false;
};

/// What `work(unwritten)` returns. Where it throws, files that could not be written are tried once more, and
/// those that are lost are noted.
template <class Work>
auto with_unwritten_files(const Work& work) {
  UnwrittenFiles unwritten;
  try {
    return work(unwritten);
  } catch (...) {
    unwritten.try_again();
    if (const std::string text = unwritten.text(); !text.empty()) note(text);
    throw;
  }
}

}  // namespace orthornn::program
