#pragma once

#include <concepts>
#include <memory>
#include <string>

#include "orthornn/core/error.hpp"
#include "orthornn/core/own_kind.hpp"
#include "orthornn/tasks/task.hpp"

namespace orthornn {

/// Makes the task of these options, `Options::Made`, with the batch size, seed and data of a source, as far
/// as the options have members for them: `batch`, `seed`, `data`, `validation_data`, `test_data`,
/// `input_order`, `parts`. Throws as the task's constructor, and ValueError for parts that the
/// options have no member for.
template <class Options>
std::unique_ptr<Task> task_of(Options options, const TaskSource& source) {
  if constexpr (requires { options.batch; }) options.batch = source.batch;
  if constexpr (requires { options.seed; }) options.seed = source.seed;
  if constexpr (requires { options.data; }) options.data = source.data;
  if constexpr (requires { options.validation_data, options.test_data; }) {
    options.validation_data = source.validation_data;
    options.test_data = source.test_data;
  }
  if constexpr (requires { options.input_order; }) options.input_order = source.input_order;
  if constexpr (requires { options.parts; }) {
    options.parts = source.parts;
  } else if (!source.parts.empty()) {
    throw ValueError("parts were given, but the task " + std::string(Options::name) + " has none");
  }
  return std::make_unique<typename Options::Made>(options);
}

/// Options of a task that a program has beside those of orthornn, without their type.
class OwnTaskKind : public OwnOptions<OwnTaskKind> {
 public:
  /// Whether a struct can be options of a task.
  template <class Options>
  static constexpr bool fits = HasFields<Options>&& requires(const Options& options) {
    Options::name;
    requires std::derived_from<typename Options::Made, Task>;
    requires std::constructible_from<typename Options::Made, const Options&>;
  };
  template <class Options>
  class Of;

  /// Makes the task. Throws as `task_of`.
  virtual std::unique_ptr<Task> make(const TaskSource& source) const = 0;
};

template <class Options>
class OwnTaskKind::Of final : public OwnOptionsOf<OwnTaskKind, Options> {
 public:
  using OwnOptionsOf<OwnTaskKind, Options>::OwnOptionsOf;

  std::unique_ptr<Task> make(const TaskSource& source) const override {
    return task_of(this->options, source);
  }
};

/// A task of a program's own among TaskOptions. The struct that it is made of has what those of orthornn have
/// (tasks/copying_task.hpp): `name`, `fields`, the type `Made` of its task, which is constructed from the
/// struct, and members for what its task needs of a TaskSource. The task's `name()` is that of the struct,
/// its `config()` is `config_of(OwnTask(options))`, and its constructor reads no data: a reader of model
/// files makes the task to check its config.
using OwnTask = OwnKind<OwnTaskKind>;

}  // namespace orthornn
