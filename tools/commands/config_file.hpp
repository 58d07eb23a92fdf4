#pragma once
// config.toml: `key = value` for the options of a command, without dashes; and [[layer]] tables.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/checked_json.hpp"
#include "orthornn/layers/layer_options.hpp"

namespace orthornn::program {

/// Gives options of `command` that the command line left out the values of a TOML file. Throws UsageError,
/// naming file, line and key, for what it does not understand.
/// Returns whether the file has the key `out`, which is ignored.
bool read_config(CLI::App& command, const std::string& file);
/// The [[layer]] tables of such a file, whose keys are the fields of LayerOptions; none when it has none.
/// Throws UsageError.
std::vector<LayerOptions> layers_in(const std::string& file);
/// Such tables.
std::string layers_text(const std::vector<LayerOptions>& layers);
/// Every setting of such a file, or of such a text, by its key. Throws UsageError for what is no TOML.
Json settings_in(const std::string& file);
Json settings_of(const std::string& text);
/// The value of one key of such a file, "" when it has none.
std::string setting_in(const std::string& file, const std::string& key);
/// The options of `command` that such a file may have, with their values as they are now, a line each, but
/// those of the group `without` and text that is no UTF-8.
std::string config_text(CLI::App& command, const std::string& without = "");

}  // namespace orthornn::program
