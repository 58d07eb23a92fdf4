#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace orthornn::program {

/// A file that grows by whole pieces, also on a disk that was full.
class AppendedFile {
 public:
  explicit AppendedFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// Makes `text` the whole content, as write_file_atomically does.
  void start(const std::string& text);
  /// The next `append` makes the file anew.
  void forget() { size_.reset(); }
  /// Adds a piece. Where the file is gone or was forgotten, it is first made anew of what `before` returns.
  /// Throws FileError where not all of the piece could be written: nothing of it counts as written then.
  void append(const std::string& piece, const std::function<std::string()>& before);
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Cuts off what an `append` that failed has left of its piece. Returns whether it could; errno says why
  /// not.
  bool cut_part();

  std::filesystem::path path_;
  /// Bytes of the file with whole pieces; nothing where it is to be made anew.
  std::optional<std::uintmax_t> size_;
  bool has_part_ = false;
};

}  // namespace orthornn::program
