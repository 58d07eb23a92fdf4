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

/// The tasks that have names of orthornn's own.
using TaskOptions = std::variant<AddingOptions, CopyingOptions, LanguageOptions, MnistOptions, RecallOptions,
                                 TranslationOptions, WordsOptions>;

/// The task of the options' fields, with the source's batch, seed and data. Throws ValueError as the task
/// does, and for an input order that it does not have.
std::unique_ptr<Task> make_task(const TaskOptions& options, const TaskSource& source);

}  // namespace orthornn
