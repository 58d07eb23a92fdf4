#include "commands/task_data.hpp"

#include <filesystem>
#include <initializer_list>
#include <utility>

#include "commands/config_file.hpp"
#include "commands/field_options.hpp"
#include "commands/program.hpp"
#include "orthornn/tasks/task_options.hpp"

namespace orthornn::program {
namespace {

bool reads_data(const TaskOptions& task) {
  return std::visit(
      [](const auto& own) {
        return requires { own.data; };
      },
      task);
}

}  // namespace

std::vector<std::string> tasks_with_data() {
  std::vector<std::string> names;
  for (const auto& task : Names<TaskOptions>::list) {
    if (reads_data(task.value)) names.emplace_back(task.name);
  }
  return names;
}

std::string usual_data(const TaskOptions& task) {
  return std::visit(
      []<class Options>(const Options& own) -> std::string {
        if constexpr (requires { own.usual_data(); }) {
          return own.usual_data();
        } else if constexpr (requires { Options::usual_data; }) {
          return Options::usual_data;
        } else {
          return "";
        }
      },
      task);
}

std::string own_forms(const TaskOptions& task) {
  return std::visit(
      []<class Options>(const Options&) -> std::string {
        if constexpr (requires { Options::own_forms; }) {
          return Options::own_forms;
        } else {
          return "";
        }
      },
      task);
}

bool is_data_key(const std::string& key) { return key == "data" || key == "validation" || key == "test"; }

DataPlace data_place(const DataFiles& given, const std::string& model_file, const TaskOptions& task) {
  const std::string usual = usual_data(task);
  const std::string task_name = name_of(task);
  if (!reads_data(task)) return {given, ""};
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
    if (setting_in(config.string(), "task") == task_name) {
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
