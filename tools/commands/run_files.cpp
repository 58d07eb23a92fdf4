#include "commands/run_files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <system_error>

#include "commands/saved_training.hpp"
#include "commands/training_log.hpp"
#include "commands/training_results.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/version.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

unsigned long crc32_of(std::string_view text) {
  return crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

/// "" for a file that is missing or cannot be read.
std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  const std::uintmax_t size = fs::file_size(file, ignored);
  return !ignored && size > 0;
}

/// A training wrote it, and nobody edited it since.
bool is_unedited_config(std::string_view text) {
  constexpr std::string_view before = " train, checksum ";
  const std::size_t end = text.find('\n');
  const std::size_t at = text.find(before);
  if (!text.starts_with("# orthornn ") || end == std::string_view::npos || at > end) return false;
  return text.substr(at + before.size()).starts_with(fmt::format("{:08x}:", crc32_of(text.substr(end + 1))));
}

}  // namespace

std::string config_of_run(const std::string& settings) {
  return fmt::format(
             "# orthornn {} train, checksum {:08x}: every setting of this run; use it with --config\n",
             version(), crc32_of(settings)) +
         settings;
}

void check_run_files(const fs::path& folder) {
  for (const char* name :
       {"config.toml", "metrics.csv", "model.h5", "best.h5", sample_file, result_file, results_file}) {
    std::error_code ignored;
    const fs::path file = folder / name;
    const fs::file_status status = fs::symlink_status(file, ignored);
    if (!fs::exists(status) || fs::is_regular_file(status)) continue;
    throw FileError(fmt::format(
        "'{}' is a link, a folder or no regular file; expected a regular file or none: replace it by "
        "what it names, or choose another --out",
        file.string()));
  }
}

void check_replaceable_run(const fs::path& folder, const std::string& config) {
  const fs::path file = folder / "config.toml", sample = folder / sample_file;
  const std::string found = content_of(file);
  const bool is_ours = found == config || is_unedited_config(found);
  if (is_there(file) && !is_ours) {
    throw FileError(fmt::format(
        "'{}' was written or edited by hand, and the training would replace it; choose another --out, or "
        "give the file another name, and name that by --config",
        file.string()));
  }
  if (is_there(sample) && !is_ours) {
    throw FileError(
        fmt::format("'{}' is of no training that is here, and the training would replace it; move it, or "
                    "choose another --out",
                    sample.string()));
  }
  check_own_metrics(folder);
}

void check_own_metrics(const fs::path& folder) {
  const fs::path file = folder / "metrics.csv";
  if (!is_there(file)) return;
  const std::string found = content_of(file);
  if (found.starts_with(metrics_header)) return;
  throw FileError(
      fmt::format("'{}' is not what orthornn train writes, and the training would replace it; move it, or "
                  "choose another --out",
                  file.string()));
}

}  // namespace orthornn::program
