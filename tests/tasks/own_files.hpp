#pragma once
// Files of own sequences, and what a task makes of them.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "orthornn/core/error.hpp"
#include "orthornn/tasks/sequences_task.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

namespace orthornn::testing {

/// The number that is written in place of a missing one.
inline constexpr float missing_number = std::numeric_limits<float>::quiet_NaN();

/// Twenty sequences of two steps: x of step t is 100 i + t, and the class is i modulo 2.
struct TwentyPairs {
  std::vector<float> inputs;
  std::vector<std::int64_t> targets;
  TwentyPairs() {
    for (int i = 0; i < 20; ++i) {
      for (int t = 0; t < 2; ++t) inputs.push_back(static_cast<float>(100 * i + t));
      targets.push_back(i % 2);
    }
  }
};

/// All sequences of the task, by their first number.
inline std::map<int, int> classes_of(const SequencesTask& task) {
  std::map<int, int> found;
  Batch batch;
  const auto add = [&] {
    const auto x = std::as_const(batch).reals(batch_names::features);
    const auto classes = std::as_const(batch).integers(batch_names::classes);
    for (Index b = 0; b < classes.size(); ++b) {
      CHECK(x(1, b, 0) == x(0, b, 0) + 1);
      found[static_cast<int>(x(0, b, 0))] = classes(b);
    }
  };
  for (Index i = 0; i < *task.batches_per_epoch(); ++i) {
    task.training_batch(static_cast<std::uint64_t>(i), batch);
    add();
  }
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    task.evaluation_batch(set, 0, batch);
    add();
  }
  return found;
}

inline void check_twenty(const SequencesTask& task) {
  std::map<int, int> expected;
  for (int i = 0; i < 20; ++i) expected[100 * i] = i % 2;
  CHECK(classes_of(task) == expected);
  CHECK(task.data().features == 1);
  CHECK(task.data().classes == 2);
}

inline SequencesOptions options_for(const std::filesystem::path& file) {
  return {.data = file, .normalization = Normalization::none, .batch = 4};
}

/// What is said of a CSV file.
inline std::string csv_error(const std::string& text, SequencesOptions options = {.batch = 1}) {
  const TemporaryFolder folder;
  options.data = write_text(folder / "own.csv", text);
  return error_message<Error>([&] { SequencesTask(options).load(); });
}

}  // namespace orthornn::testing
