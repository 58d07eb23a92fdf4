#pragma once
// What the fuzz targets share. A target's LLVMFuzzerTestOneInput hands its bytes to what the program does
// with a file of that kind. An orthornn::Error is the refusal that is expected; another exception, a report
// of a sanitizer, an input that takes too long or too much memory is a finding.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "orthornn/core/error.hpp"

namespace orthornn::fuzz {

using Bytes = std::span<const std::uint8_t>;

inline std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file of this process in a folder under TMPDIR, where memory is faster than a disk.
class InputFile {
 public:
  InputFile();

  void write(Bytes bytes);
  void write(std::string_view text) {
    write(Bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Ends the process with this message on standard error unless `holds`: a finding.
void require(bool holds, const std::string& message);

/// Does the work, which may refuse the input; returns whether it did not.
template <class Work>
bool accepted(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The same for work that reads `file`: a refusal has to name it.
template <class Work>
bool accepted(const std::filesystem::path& file, const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    require(std::string_view(error.what()).find(file.native()) != std::string_view::npos,
            std::string("this refusal does not name the file: ") + error.what());
    return false;
  }
}

/// No file of HDF5, and nothing in one, is to be open by now.
void require_hdf5_closed();

}  // namespace orthornn::fuzz
