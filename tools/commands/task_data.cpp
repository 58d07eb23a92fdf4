#include "commands/task_data.hpp"

#include <filesystem>
#include <map>

#include "commands/config_file.hpp"
#include "commands/field_options.hpp"
#include "commands/program.hpp"
#include "orthornn/tasks/task_options.hpp"

namespace orthornn::program {
namespace {

/// Usual places of the data, or "", by the names of the tasks that read any.
const std::map<std::string, std::string>& usual_places() {
  static const std::map<std::string, std::string> places = [] {
    std::map<std::string, std::string> found;
    std::apply(
        [&](const auto&... options) {
          const auto add = [&]<class Options>(const Options&) {
            if constexpr (requires(const Options& own) { own.data; }) found[Options::name] = "";
            if constexpr (requires { Options::usual_data; }) found[Options::name] = Options::usual_data;
          };
          (add(options), ...);
        },
        Alternatives<TaskOptions>().all);
    return found;
  }();
  return places;
}

}  // namespace

std::vector<std::string> tasks_with_data() {
  std::vector<std::string> names;
  for (const auto& [name, place] : usual_places()) names.push_back(name);
  return names;
}

std::string usual_data(const std::string& task) {
  const auto found = usual_places().find(task);
  return found == usual_places().end() ? "" : found->second;
}

DataPlace data_place(const std::string& given, const std::string& model_file, const std::string& task) {
  const std::string usual = usual_data(task);
  if (!given.empty() || !usual_places().contains(task)) return {given, ""};
  const auto usual_as = [&](const std::string& why) -> DataPlace {
    if (usual.empty()) return {"", fmt::format("{}; name them by --data", why)};
    return {usual, fmt::format("this is the usual place, as {}; --data names another", why)};
  };
  const std::filesystem::path config = std::filesystem::path(model_file).replace_filename("config.toml");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(config, ignored)))
    return usual_as(fmt::format("there is no '{}' that names another", config.string()));
  std::string named;
  try {
    if (setting_in(config.string(), "task") == task) named = setting_in(config.string(), "data");
  } catch (const Error& error) {
    return usual_as(
        fmt::format("'{}' is not what orthornn train writes ({})", config.string(), error.what()));
  }
  if (named.empty()) return usual_as(fmt::format("'{}' names no data of this task", config.string()));
  return {named, fmt::format("'{}' names this place; --data names another", config.string())};
}

}  // namespace orthornn::program
