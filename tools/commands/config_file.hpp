#pragma once
// config.toml: `key = value` for the options of a command, without dashes and without tables.

#include <CLI/CLI.hpp>
#include <string>

namespace orthornn::program {

/// Gives options of `command` that the command line left out the values of a TOML file. Throws UsageError,
/// naming file, line and key, for what it does not understand.
/// Returns whether the file has the key `out`, which is ignored.
bool read_config(CLI::App& command, const std::string& file);
/// The value of one key of such a file, "" when it has none.
std::string setting_in(const std::string& file, const std::string& key);
/// The options of `command` that such a file may have, with their values as they are now, a line each.
std::string config_text(CLI::App& command);

}  // namespace orthornn::program
