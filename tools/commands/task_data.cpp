#include "commands/task_data.hpp"

#include <filesystem>
#include <initializer_list>
#include <map>
#include <utility>

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

bool is_data_key(const std::string& key) { return key == "data" || key == "validation" || key == "test"; }

DataPlace data_place(const DataFiles& given, const std::string& model_file, const std::string& task) {
  const std::string usual = usual_data(task);
  if (!usual_places().contains(task)) return {given, ""};
  DataPlace place{given, ""};
  const auto usual_as = [&](const std::string& why) {
    if (!given.data.empty()) return place;
    place.files.data = usual;
    place.reason = usual.empty() ? fmt::format("{}; name them by --data", why)
                                 : fmt::format("this is the usual place, as {}; --data names another", why);
    return place;
  };
  const std::filesystem::path config = std::filesystem::path(model_file).replace_filename("config.toml");
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(config, ignored)))
    return usual_as(fmt::format("there is no '{}' that names another", config.string()));
  DataFiles named;
  try {
    if (setting_in(config.string(), "task") == task) {
      for (const auto& [key, to] :
           {std::pair{"data", &named.data}, {"validation", &named.validation}, {"test", &named.test}})
        *to = setting_in(config.string(), key);
    }
  } catch (const Error& error) {
    return usual_as(
        fmt::format("'{}' is not what orthornn train writes ({})", config.string(), error.what()));
  }
  if (given.validation.empty()) place.files.validation = named.validation;
  if (given.test.empty()) place.files.test = named.test;
  if (!given.data.empty()) return place;
  if (named.data.empty()) return usual_as(fmt::format("'{}' names no data of this task", config.string()));
  place.files.data = named.data;
  place.reason = fmt::format("'{}' names this place; --data names another", config.string());
  return place;
}

}  // namespace orthornn::program
