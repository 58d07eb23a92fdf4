#include "tasks/task_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

using nlohmann::json;

json parse(const std::string& config) {
  json settings = json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!settings.is_object() || !settings.contains("task") || !settings["task"].is_string()) {
    throw ValueError(fmt::format(
        R"(the config of a task is a JSON object such as {{"task": "copying", "delay": 1000}}, not '{}')",
        config));
  }
  return settings;
}

[[noreturn]] void throw_wrong_kind(const json& settings, const char* setting, const char* expected) {
  throw ValueError(fmt::format("task {}: setting '{}' is {}, expected {}",
                               settings["task"].get<std::string>(), setting, settings[setting].dump(),
                               expected));
}

}  // namespace

std::string task_name(const std::string& config) { return parse(config)["task"]; }

TaskConfig::TaskConfig(const std::string& config, const char* name, std::initializer_list<const char*> known)
    : settings_(parse(config)) {
  if (settings_["task"] != name) {
    throw ValueError(fmt::format("this is the config of task '{}', expected '{}'", task_name(config), name));
  }
  for (const auto& entry : settings_.items()) {
    bool is_known = entry.key() == "task";
    for (const char* setting : known) is_known |= entry.key() == setting;
    if (!is_known) {
      throw ValueError(
          fmt::format("task {} has no setting '{}'; it has {}", name, entry.key(), fmt::join(known, ", ")));
    }
  }
}

void TaskConfig::read(const char* setting, Index& value) const {
  if (!settings_.contains(setting)) return;
  const json& found = settings_[setting];
  // An unsigned number beyond Index would turn negative.
  if (!found.is_number_integer() ||
      (found.is_number_unsigned() &&
       found.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Index>::max()))) {
    throw_wrong_kind(settings_, setting, "a whole number below 2^63");
  }
  value = found.get<Index>();
}

void TaskConfig::read(const char* setting, std::uint64_t& value) const {
  if (!settings_.contains(setting)) return;
  const json& found = settings_[setting];
  if (!found.is_number_unsigned()) throw_wrong_kind(settings_, setting, "a whole number from 0 to 2^64 - 1");
  value = found.get<std::uint64_t>();
}

void TaskConfig::read(const char* setting, bool& value) const {
  if (!settings_.contains(setting)) return;
  const json& found = settings_[setting];
  if (!found.is_boolean()) throw_wrong_kind(settings_, setting, "true or false");
  value = found.get<bool>();
}

}  // namespace orthornn
