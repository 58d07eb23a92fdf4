#pragma once

#include <memory>
#include <variant>

#include "orthornn/tasks/adding_task.hpp"
#include "orthornn/tasks/copying_task.hpp"
#include "orthornn/tasks/language_task.hpp"
#include "orthornn/tasks/mnist_task.hpp"
#include "orthornn/tasks/recall_task.hpp"
#include "orthornn/tasks/translation_task.hpp"
#include "orthornn/tasks/words_task.hpp"

namespace orthornn {

/// Options of any of orthornn's own tasks.
using TaskOptions = std::variant<AddingOptions, CopyingOptions, LanguageOptions, MnistOptions, RecallOptions,
                                 TranslationOptions, WordsOptions>;

/// Makes the task of the options' fields, with the source's batch, seed and data. Throws ValueError as the
/// task's constructor, and for an input order where the task has none.
std::unique_ptr<Task> make_task(const TaskOptions& options, const TaskSource& source);

}  // namespace orthornn
