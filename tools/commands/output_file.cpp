#include "commands/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "core/checked_json.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "pages/comparison_page.hpp"
#include "pages/html_page.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

/// What a file is, in words, and the kind that it is of, if a command writes such.
struct FoundOutput {
  const char* words;
  std::optional<OutputKind> kind = std::nullopt;
};

const char* words_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::predictions:
      return "predictions (HDF5 with /logits and the last states)";
    case OutputKind::results:
      return "results of a benchmark (JSON)";
    default:
      return "a page of orthornn (HTML)";
  }
}

FoundOutput of_kind(OutputKind kind) { return {words_of(kind), kind}; }

FoundOutput find_hdf5(const fs::path& file) {
  try {
    const Hdf5Reader reader(file);
    const std::vector<std::string> names = reader.names("/");
    const auto is_output = [](const std::string& name) {
      return name == "logits" || name.substr(0, name.find_last_not_of("0123456789") + 1).ends_with("_last");
    };
    if (reader.has("logits") && std::ranges::all_of(names, is_output))
      return of_kind(OutputKind::predictions);
    read_model_info(file);
    return {"a trained model"};
  } catch (const Error&) {
    return {"an HDF5 file that orthornn predict did not write"};
  }
}

bool holds_results(const std::string& text) {
  try {
    const Json json = parse_json(text);
    const auto is_result = [](const Json& one) { return one.is_object() && one.contains("benchmark"); };
    if (json.is_array()) return !json.empty() && std::all_of(json.begin(), json.end(), is_result);
    return is_result(json) ||
           (json.is_object() && json.contains("format") && json["format"] == comparison_format);
  } catch (const ValueError&) {
    return false;
  }
}

/// Nothing for an empty file.
std::optional<FoundOutput> find_output(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::error_code unknown;
  const std::uintmax_t size = fs::file_size(file, unknown);
  if (!stream || unknown) return FoundOutput{"a file that cannot be read"};
  if (size == 0) return std::nullopt;
  constexpr std::uintmax_t largest_text = std::uintmax_t{1} << 28;
  const char first = static_cast<char>(stream.peek());
  if (first == '\x89') return find_hdf5(file);
  if (size <= largest_text && (first == '{' || first == '[' || first == '<')) {
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    if (is_page_of_orthornn(text)) return of_kind(OutputKind::page);
    if (holds_results(text)) return of_kind(OutputKind::results);
  }
  return FoundOutput{"a file that orthornn did not write here"};
}

/// Throws FileError where write_file_atomically would for lack of a folder or of the right to write.
void check_output_place(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code status;
  const fs::file_status found = fs::symlink_status(file, status);
  const auto refuse = [&](const std::string& why) {
    throw FileError(fmt::format("cannot write '{}': {}; choose another place", file.string(), why));
  };
  if (found.type() == fs::file_type::none) refuse(status.message());
  if (fs::exists(found) && !fs::is_symlink(found) && !fs::is_regular_file(found))
    refuse("it is no regular file");
  for (const fs::path& needed : {folder, file}) {
    if (needed == file && !fs::is_regular_file(found)) continue;
    if (access(needed.c_str(), W_OK) != 0) refuse(std::generic_category().message(errno));
  }
}

}  // namespace

CLI::Option* add_overwrite(CLI::App& command, bool& overwrite) {
  return command.add_flag("--overwrite", overwrite,
                          "Replace an existing file of any kind, and a link by a file of its own");
}

void check_output(const fs::path& file, OutputKind kind, bool overwrite) {
  check_output_place(file);
  if (overwrite) return;
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(file, ignored))) {
    throw FileError(
        fmt::format("cannot write '{}': it is a link to '{}'; choose another name, or replace the link by "
                    "--overwrite",
                    file.string(), fs::read_symlink(file, ignored).string()));
  }
  if (!fs::exists(file, ignored)) return;
  const std::optional<FoundOutput> found = find_output(file);
  if (!found || found->kind == kind) return;
  throw FileError(
      fmt::format("cannot write '{}': it is {} already; expected {}, or no file: choose another name, or "
                  "replace it by --overwrite",
                  file.string(), found->words, words_of(kind)));
}

}  // namespace orthornn::program
