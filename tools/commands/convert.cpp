#include <fmt/format.h>

#include <filesystem>

#include "commands/program.hpp"

namespace orthornn::program {
namespace {

struct ConvertSettings {
  std::string from;
  std::string to;
};

int convert(const ConvertSettings& settings) {
  const ModelFileInfo before = read_model_info(settings.from);
  std::error_code missing;  // no file yet: nothing to overwrite
  // A link is there even where its file is not.
  if (fs::exists(fs::symlink_status(settings.to, missing)) &&
      !fs::equivalent(settings.from, settings.to, missing)) {
    throw UsageError(
        fmt::format("'{}' exists already; expected a new name, or that of the old file", settings.to));
  }
  convert_model(settings.from, settings.to);
  fmt::print("{}: format version {}, converted from version {}{}\n", printable(settings.to),
             read_model_info(settings.to).format_version, before.format_version,
             before.steps ? fmt::format("; its training can go on after step {}", *before.steps) : "");
  return success;
}

}  // namespace

void add_convert(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("convert", "Write a model file in the present format");
  const auto settings = std::make_shared<ConvertSettings>();
  command->add_option("old", settings->from, "Model file of any format version")->required();
  command->add_option("new", settings->to, "Model file to write; may be the same")->required();
  command->callback([&chosen, settings] { chosen = [settings] { return convert(*settings); }; });
}

}  // namespace orthornn::program
