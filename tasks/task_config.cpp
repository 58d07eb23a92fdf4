#include "tasks/task_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

Json parse(const std::string& config) {
  try {
    Json settings = parse_json(config);
    text_member(settings, "task");
    return settings;
  } catch (const ValueError& error) {
    throw ValueError(fmt::format(
        R"(the config of a task is a JSON object such as {{"task": "copying", "delay": 1000}}, not '{}': {})",
        config.substr(0, 60), error.what()));
  }
}

}  // namespace

std::string task_name(const std::string& config) { return text_member(parse(config), "task"); }

TaskConfig::TaskConfig(const std::string& config, const char* name, std::initializer_list<const char*> known)
    : settings_(parse(config)) {
  if (text_member(settings_, "task") != name) {
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

/// value <- read(settings, setting) where the setting is there.
template <class Value, class Read>
void TaskConfig::read_with(const Read& read, const char* setting, Value& value) const {
  if (!settings_.contains(setting)) return;
  try {
    value = read(settings_, setting);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("task {}: {}", text_member(settings_, "task"), error.what()));
  }
}

void TaskConfig::read(const char* setting, Index& value) const {
  read_with([](const Json& of, const char* key) { return integer_member(of, key); }, setting, value);
}

void TaskConfig::read(const char* setting, std::uint64_t& value) const {
  read_with(unsigned_member, setting, value);
}

void TaskConfig::read(const char* setting, bool& value) const { read_with(boolean_member, setting, value); }

}  // namespace orthornn
