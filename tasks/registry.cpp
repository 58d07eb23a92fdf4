// Where names become tasks. To add a task: one header and one source beside their siblings, and its options,
// which name their task as `Made`, in TaskOptions.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/fields_json.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/tasks/task_options.hpp"

namespace orthornn {
namespace {

/// An object with the text "task".
Json parse_config(const std::string& config) {
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

template <class Options>
void read_settings(const Json& settings, Options& options) {
  std::vector<std::string> known;
  Options::fields([&](const char* key, auto&&...) { known.emplace_back(key); });
  for (const auto& entry : settings.items()) {
    if (entry.key() == "task" || std::find(known.begin(), known.end(), entry.key()) != known.end()) continue;
    throw ValueError(fmt::format("task {} has no setting '{}'; it has {}", Options::name, entry.key(),
                                 fmt::join(known, ", ")));
  }
  try {
    read_fields(settings, options, MissingField::has_its_default);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("task {}: {}", Options::name, error.what()));
  }
}

}  // namespace

std::vector<std::string> task_names() { return names_of<TaskOptions>(); }

std::unique_ptr<Task> make_task(const TaskOptions& options, const TaskSource& source) {
  auto task = std::visit(
      [&]<class Options>(Options own) -> std::unique_ptr<Task> {
        own.batch = source.batch;
        own.seed = source.seed;
        if constexpr (requires { own.data; }) own.data = source.data;
        if constexpr (requires { own.input_order; }) own.input_order = source.input_order;
        if constexpr (requires { own.parts; }) {
          own.parts = source.parts;
        } else if (!source.parts.empty()) {
          throw ValueError(fmt::format("parts were given, but the task {} has none", Options::name));
        }
        return std::make_unique<typename Options::Made>(own);
      },
      options);
  if (!source.input_order.empty() && task->input_order().empty()) {
    throw ValueError(
        fmt::format("an input order was given, but the task {} reads its input as it is", task->config()));
  }
  return task;
}

std::unique_ptr<Task> make_task(const std::string& config, const TaskSource& source) {
  const Json settings = parse_config(config);
  auto options = named_member<TaskOptions>(settings, "task");
  std::visit([&](auto& own) { read_settings(settings, own); }, options);
  return make_task(options, source);
}

}  // namespace orthornn
