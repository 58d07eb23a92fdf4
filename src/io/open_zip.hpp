#pragma once
// Zip archives, opened by libzip to read.

#include <zip.h>

#include <filesystem>
#include <memory>
#include <string>

namespace orthornn {

struct CloseZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

/// Opens an archive; null where that fails, for a reason in libzip's words.
inline std::unique_ptr<zip_t, CloseZip> open_zip(const std::filesystem::path& file, std::string& reason) {
  int code = 0;
  std::unique_ptr<zip_t, CloseZip> archive(zip_open(file.c_str(), ZIP_RDONLY, &code));
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    reason = zip_error_strerror(&error);
    zip_error_fini(&error);
  }
  return archive;
}

}  // namespace orthornn
