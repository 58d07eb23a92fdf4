// Where names become tasks. To add a task: one header and one source beside their siblings, one line here.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "tasks/task_config.hpp"

namespace orthornn {
namespace {

template <class T>
std::unique_ptr<Task> make(const std::string& config, const TaskSource& source) {
  return std::make_unique<T>(config, source);
}

struct Entry {
  const char* name;
  std::unique_ptr<Task> (*make)(const std::string& config, const TaskSource& source);
};

constexpr Entry entries[] = {
    {"adding", make<AddingTask>},
    {"copying", make<CopyingTask>},
    {"mnist", make<MnistTask>},
};

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Task> make_task(const std::string& config, const TaskSource& source) {
  const std::string name = task_name(config);
  for (const Entry& entry : entries) {
    if (entry.name != name) continue;
    std::unique_ptr<Task> task = entry.make(config, source);
    if (!source.input_order.empty() && task->input_order().empty()) {
      throw ValueError(
          fmt::format("an input order was given, but the task {} reads its input as it is", config));
    }
    return task;
  }
  throw ValueError(fmt::format("unknown task '{}'; expected {}", name, fmt::join(task_names(), ", ")));
}

}  // namespace orthornn
