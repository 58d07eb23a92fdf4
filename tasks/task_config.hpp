#pragma once

#include <initializer_list>
#include <string>

#include "core/checked_json.hpp"

namespace orthornn {

/// The value of "task" in the text of `Task::config()`. Throws ValueError.
std::string task_name(const std::string& config);

/// The text of `Task::config()`, {"task": NAME, setting: value, ..}, read setting by setting.
class TaskConfig {
 public:
  /// Throws ValueError for text that is not the config of the task `name` or has a setting besides `known`.
  TaskConfig(const std::string& config, const char* name, std::initializer_list<const char*> known);

  /// Overwrites `value` when the setting is there; throws ValueError when it is of another kind.
  void read(const char* setting, Index& value) const;
  void read(const char* setting, std::uint64_t& value) const;
  void read(const char* setting, bool& value) const;

 private:
  template <class Value, class Read>
  void read_with(const Read& read, const char* setting, Value& value) const;

  Json settings_;
};

}  // namespace orthornn
