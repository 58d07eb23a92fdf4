#include "commands/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "bench/benchmark.hpp"
#include "commands/predict_output.hpp"
#include "core/checked_json.hpp"
#include "io/npz_file.hpp"
#include "orthornn/io/hdf5.hpp"
#include "orthornn/train/model_file.hpp"
#include "pages/comparison_page.hpp"
#include "pages/html_page.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

/// What a file is, in words, and the kind that it is of, if a command writes such.
struct FoundOutput {
  const char* words;
  std::optional<OutputKind> kind = std::nullopt;
};

const char* words_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::predictions:
      return "predictions (HDF5, npz, CSV or JSON lines)";
    case OutputKind::figures:
      return "figures of a model (HDF5 or npz)";
    case OutputKind::results:
      return "results of a benchmark (JSON)";
    default:
      return "a page of orthornn (HTML)";
  }
}

FoundOutput of_kind(OutputKind kind) { return {words_of(kind), kind}; }

/// Whether it is the last state of a layer, by its name: "h_last", "c_last1", "0.convolution_last2".
bool is_last_state(const std::string& name) {
  const std::string without_layer = name.substr(0, name.find_last_not_of("0123456789") + 1);
  const std::string state = without_layer.substr(without_layer.rfind('.') + 1);
  constexpr std::array states = {"h_last", "c_last", "s_last", "convolution_last", "steps_last"};
  return std::ranges::find(states, state) != states.end();
}

/// The kind of a file of arrays that says so of itself.
std::optional<OutputKind> kind_of_format(const std::string& format) {
  if (format == predictions_format) return OutputKind::predictions;
  if (format == figures_format) return OutputKind::figures;
  return std::nullopt;
}

std::optional<OutputKind> kind_of(const Hdf5Reader& reader) {
  if (reader.has_attribute("/", "format")) return kind_of_format(reader.string_attribute("/", "format"));
  // Earlier versions did not write the attribute.
  const std::vector<std::string> names = reader.names("/");
  const bool are_predictions =
      reader.has("logits") && names.size() > 1 && std::ranges::all_of(names, [](const std::string& name) {
        return name == "logits" || is_last_state(name);
      });
  return are_predictions ? std::optional(OutputKind::predictions) : std::nullopt;
}

FoundOutput find_hdf5(const fs::path& file) {
  try {
    if (const std::optional<OutputKind> kind = kind_of(Hdf5Reader(file))) return of_kind(*kind);
    read_model_info(file);
    return {"a trained model"};
  } catch (const Error&) {
    return {"an HDF5 file that orthornn predict did not write"};
  }
}

FoundOutput find_npz(const fs::path& file) {
  try {
    if (const std::optional<OutputKind> kind = kind_of_format(npz_format(file))) return of_kind(*kind);
  } catch (const FileError&) {
  }
  return {"an archive that orthornn did not write"};
}

bool holds_predictions(const fs::path& file) {
  std::string line;
  std::ifstream stream(file, std::ios::binary);
  std::getline(stream, line);
  return begins_predictions(line);
}

/// Results of a benchmark of ours. Each says where they were measured, or by which version.
bool is_result(const Json& json) {
  if (!json.is_object() || !(json.contains("device") || json.contains("library_version"))) return false;
  const Json name = json.value("benchmark", Json());
  return name.is_string() && is_benchmark(name.get<std::string>());
}

bool holds_results(const std::string& text) {
  try {
    const Json json = parse_json(text);
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
  constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
  std::string start(hdf5_signature.size(), '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start == hdf5_signature) return find_hdf5(file);
  if (start.starts_with("PK")) return find_npz(file);
  constexpr std::uintmax_t largest_text = std::uintmax_t{1} << 28;
  if (size <= largest_text && std::string_view("{[<").find(start[0]) != std::string_view::npos) {
    const std::string text = read_whole_file(file);
    if (is_page_of_orthornn(text)) return of_kind(OutputKind::page);
    if (holds_results(text)) return of_kind(OutputKind::results);
  }
  if (size <= largest_text && holds_predictions(file)) return of_kind(OutputKind::predictions);
  return FoundOutput{"a file that orthornn did not write"};
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
  // A file in place of a link such as /dev/stdout would be a loss to the whole system.
  if (fs::is_symlink(found) && fs::exists(file, status) && !fs::is_regular_file(file, status))
    refuse("it is a link to a device or a folder");
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
      fmt::format("cannot write '{}': there is already {}; expected {}, or no file: choose another name, or "
                  "replace it by --overwrite",
                  file.string(), found->words, words_of(kind)));
}

}  // namespace orthornn::program
