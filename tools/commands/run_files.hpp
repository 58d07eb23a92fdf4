#pragma once
// Files of a run directory that a training replaces, and files there that are somebody's own.

#include <filesystem>
#include <string>

namespace orthornn::program {

/// The content of a config.toml with these settings. Its first line has their checksum, which tells a file
/// that was edited.
std::string config_of_run(const std::string& settings);

/// A run directory may come from a stranger: what is written into it must not go through a link to another
/// file, and what is read must not be a pipe. Throws FileError for a file of a run that is no regular file.
void check_run_files(const std::filesystem::path& folder);

/// Throws FileError, which says that the file is not of a training and would be replaced.
[[noreturn]] void refuse_foreign(const std::filesystem::path& file);

/// Whether a training with these settings writes its config.toml. It does where the file is missing, or is as
/// a training wrote it. Where somebody wrote or edited the file, a training that begins throws FileError. One
/// that goes on returns false, so that the file stays, and notes a setting that the file has otherwise.
bool writes_config(const std::filesystem::path& folder, const std::string& settings, bool goes_on);

/// Whether a training with these sentences writes its sentences.tsv. It does where the file is missing. Where
/// the file has other sentences, a training that begins throws FileError, and one that goes on leaves them.
bool writes_sample(const std::filesystem::path& folder, const std::string& sentences, bool goes_on);

/// Throws FileError for a metrics.csv that no training wrote: one that begins or goes on would replace it.
void check_own_metrics(const std::filesystem::path& folder);

}  // namespace orthornn::program
