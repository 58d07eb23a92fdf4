#pragma once
// Files that a command writes where the user says: what they may replace.

#include <CLI/CLI.hpp>
#include <filesystem>

namespace orthornn::program {

/// What a command writes into such a file.
enum class OutputKind {
  predictions,  // HDF5, npz, CSV or JSON lines
  figures,      // HDF5 or npz of inspect --export
  results,      // JSON of a benchmark
  page,         // HTML
};

/// Adds --overwrite.
CLI::Option* add_overwrite(CLI::App& command, bool& overwrite);

/// What files of arrays say of themselves: HDF5 in the attribute `format`, npz in its comment.
inline constexpr const char* predictions_format = "orthornn-predictions";
inline constexpr const char* figures_format = "orthornn-figures";

/// Throws FileError where the file cannot be written, for lack of a folder or of the right to write. Without
/// `overwrite` it throws as well for a symbolic link, and for a file that is neither empty nor of the kind
/// that replaces it. To be called before minutes of measuring; then write with SymbolicLinks::replaced.
void check_output(const std::filesystem::path& file, OutputKind kind, bool overwrite);

}  // namespace orthornn::program
