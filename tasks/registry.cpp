// Where names become tasks.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/fields_json.hpp"
#include "core/register_kind.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/task_options.hpp"

namespace orthornn {
namespace {

/// The key of a task's name in its config.
constexpr const char* tag = "task";

/// An object with the text "task".
Json parse_config(const std::string& config) {
  try {
    Json settings = parse_json(config);
    text_member(settings, tag);
    return settings;
  } catch (const ValueError& error) {
    throw ValueError(fmt::format(
        R"(the config of a task is a JSON object such as {{"task": "copying", "delay": 1000}}, not '{}': {})",
        config.substr(0, 60), error.what()));
  }
}

template <class Options>
std::vector<std::string> keys_of(const Options& options) {
  std::vector<std::string> keys;
  if constexpr (IsOwnKind<Options>) {
    for (const OwnField& field : options->copy()->fields()) keys.emplace_back(field.key);
  } else {
    Options::fields([&](const char* key, auto&&...) { keys.emplace_back(key); });
  }
  return keys;
}

template <class Options>
void read_settings(const Json& settings, Options& options) {
  const std::vector<std::string> known = keys_of(options);
  for (const auto& entry : settings.items()) {
    if (entry.key() == tag || std::ranges::find(known, entry.key()) != known.end()) continue;
    throw ValueError(fmt::format("task {} has no setting '{}'; it has {}", options.name, entry.key(),
                                 fmt::join(known, ", ")));
  }
  try {
    read_fields(settings, options, MissingField::has_its_default);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("task {}: {}", options.name, error.what()));
  }
}

}  // namespace

std::vector<std::string> task_names() { return names_of<TaskOptions>(); }

void register_task(const OwnTask& defaults) { register_kind<TaskOptions>("task", defaults, tag); }
template const std::vector<OwnTask>& OwnTask::registered();

std::string config_of(const TaskOptions& options) {
  return std::visit([](const auto& own) { return json_object(own, tag).dump(); }, options);
}

std::unique_ptr<Task> make_task(const TaskOptions& options, const TaskSource& source) {
  auto task = std::visit(
      [&]<class Options>(const Options& own) -> std::unique_ptr<Task> {
        if constexpr (IsOwnKind<Options>) {
          return own->make(source);
        } else {
          static_assert(requires(Options options) { options.batch, options.seed; });
          return task_of(own, source);
        }
      },
      options);
  if (!source.input_order.empty() && task->input_order().empty()) {
    throw ValueError(
        fmt::format("an input order was given, but the task {} reads its input as it is", task->config()));
  }
  return task;
}

TaskOptions task_options_of(const std::string& config) {
  const Json settings = parse_config(config);
  auto options = named_member<TaskOptions>(settings, tag);
  std::visit([&](auto& own) { read_settings(settings, own); }, options);
  return options;
}

std::unique_ptr<Task> make_task(const std::string& config, const TaskSource& source) {
  return make_task(task_options_of(config), source);
}

}  // namespace orthornn
