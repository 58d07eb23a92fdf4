#include "commands/task_data.hpp"

#include <filesystem>

#include "commands/config_file.hpp"
#include "commands/program.hpp"

namespace orthornn::program {

DataPlace data_place(const std::string& given, const std::string& model_file, const std::string& task) {
  if (!given.empty()) return {given, ""};
  // Other tasks read no data, and their config.toml is not needed.
  if (task != MnistOptions::name && task != TranslationOptions::name) return {usual_data(task), ""};
  const std::filesystem::path config = std::filesystem::path(model_file).replace_filename("config.toml");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(config, ignored)))
    return {usual_data(task),
            fmt::format("this is the usual place, as there is no '{}' that names another; --data names one",
                        config.string())};
  const std::string named =
      setting_in(config.string(), "task") == task ? setting_in(config.string(), "data") : std::string();
  if (named.empty())
    return {usual_data(task), fmt::format("this is the usual place, as '{}' names no data of this task; "
                                          "--data names another",
                                          config.string())};
  return {named, fmt::format("'{}' names this place; --data names another", config.string())};
}

}  // namespace orthornn::program
