#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <variant>

#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/tasks/own_task.hpp"
#include "orthornn/tasks/recall_task.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "orthornn/tasks/video_task.hpp"
#include "orthornn/tasks/words_task.hpp"

namespace orthornn {

/// Options of any task, registered kinds of a program included.
using TaskOptions = std::variant<AddingOptions, CopyingOptions, LanguageOptions, MnistOptions, RecallOptions,
                                 SequencesOptions, TranslationOptions, VideoOptions, WordsOptions, OwnTask>;

/// Makes a task known by its name to `make_task` and `task_names`, so that the task in a model file can be
/// made again. It holds for the whole program. Call it in `main`, before tasks are made by any thread; the
/// same kind again changes nothing. Throws ValueError for a name that another task has, and for names that
/// JSON could not hold.
void register_task(const OwnTask& defaults);
template <class Options>
void register_task() {
  static_assert(!derives_from_alternative<Options>(std::type_identity<TaskOptions>()),
                "an own task does not derive from the options of a task of orthornn");
  register_task(OwnTask(Options{}));
}

/// The text of `Task::config()` for these options: an object of their name under "task", and their fields.
std::string config_of(const TaskOptions& options);

/// The options of which `config_of` makes this text; settings that it leaves out have their defaults. Throws
/// ValueError as `make_task` does for such a text.
TaskOptions task_options_of(const std::string& config);

/// Makes the task of the options' fields, with the source's batch, seed and data. Throws ValueError as the
/// task's constructor, and for an input order where the task has none.
std::unique_ptr<Task> make_task(const TaskOptions& options, const TaskSource& source);

}  // namespace orthornn
