#include "commands/run_files.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <system_error>

#include "commands/config_file.hpp"
#include "commands/program.hpp"
#include "commands/saved_training.hpp"
#include "commands/task_data.hpp"
#include "commands/training_log.hpp"
#include "commands/training_results.hpp"
#include "core/checked_json.hpp"
#include "io/crc32_of.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/version.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

std::uint32_t crc32_of(std::string_view text) { return orthornn::crc32_of(text.data(), text.size()); }

bool is_there(const fs::path& file) {
  std::error_code ignored;
  const std::uintmax_t size = fs::file_size(file, ignored);
  return !ignored && size > 0;
}

/// Whether a training wrote it, without an edit since. Files of earlier versions have no checksum.
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

void refuse_foreign(const fs::path& file) {
  throw FileError(
      fmt::format("'{}' is not what orthornn train writes, and the training would replace it; move it, or "
                  "choose another --out",
                  file.string()));
}

bool writes_config(const fs::path& folder, const std::string& settings, bool goes_on) {
  const fs::path file = folder / "config.toml";
  if (!is_there(file) || is_unedited_config(read_whole_file(file))) return true;
  if (!goes_on) {
    throw FileError(fmt::format(
        "'{}' was written or edited by hand, or is of an earlier version, and the training would replace "
        "it; choose another --out, or give the file another name, and name that by --config",
        file.string()));
  }
  const Json found = settings_in(file.string()), wanted = settings_of(settings);
  for (const auto& [key, value] : wanted.items()) {
    // An earlier version had the place as the command line gave it.
    if (is_data_key(key) || !found.contains(key) || found[key] == value) continue;
    note(fmt::format(
        "'{}' was edited by hand or is of an earlier version, so it is not replaced. It has {} {}, and this "
        "training has {}; correct it there",
        file.string(), key, json_text(found[key], -1), json_text(value, -1)));
    break;
  }
  return false;
}

bool writes_sample(const fs::path& folder, const std::string& sentences, bool goes_on) {
  const fs::path file = folder / sample_file;
  if (!is_there(file)) return true;
  if (!goes_on && read_whole_file(file) != sentences) {
    throw FileError(
        fmt::format("'{}' has other sentences than this training, which would replace them; move it, or "
                    "choose another --out",
                    file.string()));
  }
  return false;
}

void check_own_metrics(const fs::path& folder) {
  const fs::path file = folder / "metrics.csv";
  if (is_there(file) && !read_whole_file(file).starts_with(first_columns)) refuse_foreign(file);
}

}  // namespace orthornn::program
