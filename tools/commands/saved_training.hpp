#pragma once

#include <vector>

#include "orthornn/train/trainer.hpp"
#include "support/files.hpp"

namespace orthornn::program {

/// What a run directory of translations keeps of its test data: a few pairs, a line each.
inline constexpr const char* sample_file = "sentences.tsv";
/// What `bench translate` keeps of a training that is evaluated.
inline constexpr const char* result_file = "result.json";

/// What a run directory keeps of a training: model.h5, the last state, and best.h5, the one of the smallest
/// validation loss. A training can go on from either.
struct SavedTraining {
  std::filesystem::path last;
  std::filesystem::path best;

  explicit SavedTraining(const std::filesystem::path& folder)
      : last(folder / "model.h5"), best(folder / "best.h5") {}

  bool exists() const { return has_last() || has_best(); }
  bool has_last() const { return is_present(last); }
  bool has_best() const { return is_present(best); }

  /// The model that test data and translations are for: the best one, if there is one.
  const std::filesystem::path& best_or_last() const { return has_best() ? best : last; }

  /// `Task::parts()` as model.h5 keeps them, or best.h5 where there is no other. Returns no parts where the
  /// training will not go on from the file: it is of another task or seed, or no regular file. Throws
  /// FileError for a file that is damaged.
  std::vector<TaskPart> parts_of(const Task& task) const;

  /// Brings the trainer to the later of the two states, and both files in line with it: where model.h5 was
  /// the earlier one or is missing, it is written. Notes it where the best model is missing. Throws FileError
  /// for a file that is damaged or of another training.
  void resume(Trainer& trainer) const;
};

}  // namespace orthornn::program
