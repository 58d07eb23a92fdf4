// The text of Task::config(), as a model file has it. A task that it makes describes itself by a text that
// makes the same task.

#include "fuzz/fuzz_target.hpp"
#include "orthornn/tasks/task.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TaskSource source{.batch = 2, .seed = 1};
  std::unique_ptr<Task> task;
  if (!accepted([&] { task = make_task(text_of({data, size}), source); })) return 0;
  task->baseline_loss();
  const std::string config = task->config();
  require(make_task(config, source)->config() == config,
          "a task's config changes when it is read again: " + config);
  if (task->length() > 1000 || task->name() == "mnist") return 0;
  Batch batch;
  task->training_batch(0, batch);
  task->evaluation_batch(HeldOut::test, 0, batch);
  return 0;
}
