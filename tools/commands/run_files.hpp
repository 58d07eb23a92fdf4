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

/// Throws FileError where a training that begins would replace a file of another origin: a config.toml other
/// than `config` that somebody wrote or edited, a sentences.tsv without a config.toml of a training beside
/// it, or what `check_own_metrics` throws for.
void check_replaceable_run(const std::filesystem::path& folder, const std::string& config);

/// Throws FileError for a metrics.csv that no training wrote, which one that begins or goes on would replace.
void check_own_metrics(const std::filesystem::path& folder);

}  // namespace orthornn::program
