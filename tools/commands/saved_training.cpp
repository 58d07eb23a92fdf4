#include "commands/saved_training.hpp"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "commands/program.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn::program {
namespace {

/// Throws the error of a file, with how to go on: without that file, which is renamed, as it may be sound and
/// only locked or unreadable for now. Where `read_other` refuses the other file, that would not lead on, and
/// the error has both reasons.
[[noreturn]] void throw_with_way(const FileError& error, const std::filesystem::path& refused,
                                 const std::filesystem::path& other, const std::string& way,
                                 const std::function<void()>& read_other) {
  try {
    read_other();
  } catch (const FileError& also) {
    const auto* mismatch = dynamic_cast<const MismatchError*>(&error);
    const auto* other_mismatch = dynamic_cast<const MismatchError*>(&also);
    if (mismatch != nullptr && other_mismatch != nullptr && mismatch->reason() == other_mismatch->reason()) {
      throw FileError(
          fmt::format("{}. The same is true of '{}'. Give the training the settings of both files, "
                      "or begin one with another --out",
                      error.what(), other.string()));
    }
    throw FileError(fmt::format("{}. '{}' is refused too: {}. Replace one of them, or use another --out",
                                error.what(), other.string(), also.what()));
  }
  throw FileError(fmt::format("{}. Rename '{}' to go on {}", error.what(), refused.string(), way));
}

/// Throws FileError unless the file is the best state of this training, as `train` saves it.
ModelFileInfo info_of_best(const std::filesystem::path& file, const Trainer& trainer) {
  ModelFileInfo info = check_resumable(file, trainer);
  if (!info.best || info.best->step != *info.steps) {
    throw FileError(fmt::format(
        "{} is of step {}, and its best result is {}; expected the best result itself", file.string(),
        *info.steps, info.best ? fmt::format("of step {}", info.best->step) : "missing"));
  }
  return info;
}

/// What `read` returns of the last state, or of the best one where there is no other. Where the last one is
/// refused, the error says how to go on without it, or why `read_best` refuses the best one too.
ModelFileInfo info_of_last(const SavedTraining& saved, const std::function<ModelFileInfo()>& read,
                           const std::function<void()>& read_best) {
  try {
    return read();
  } catch (const FileError& error) {
    if (!saved.has_last() || !saved.has_best()) throw;
    throw_with_way(error, saved.last, saved.best, fmt::format("from '{}'", saved.best.string()), read_best);
  }
}

}  // namespace

std::vector<TaskPart> SavedTraining::parts_of(const Task& task) const {
  const std::filesystem::path& file = has_last() ? last : best;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, ignored))) return {};
  ModelFileInfo info = info_of_last(
      *this, [&] { return read_model_info(file); }, [this] { load_any_model(best); });
  if (info.task_config != task.config() || info.seed != task.seed()) return {};
  return std::move(info.parts);
}

void SavedTraining::resume(Trainer& trainer) const {
  // The last state first: where settings do not fit, neither file does.
  std::optional<ModelFileInfo> last_info, best_info;
  if (has_last()) {
    last_info = info_of_last(
        *this, [&] { return check_resumable(last, trainer); },
        [&] {
          info_of_best(best, trainer);
          restore(best, trainer);
        });
  }
  bool from_best = false;
  try {
    if (has_best()) best_info = info_of_best(best, trainer);
    // The best state is saved first, so a run that was killed between the two saves goes on from there.
    from_best = best_info && (!last_info || *best_info->steps > *last_info->steps);
    if (from_best) {
      restore(best, trainer);
    } else if (best_info) {
      // They are read when the training has ended. `restore` overwrites them in the trainer's model.
      load_parameters(best, trainer.model());
    }
  } catch (const FileError& error) {
    if (!last_info) throw;
    throw_with_way(error, best, last, from_best ? fmt::format("from '{}'", last.string()) : "without it",
                   [&] { restore(last, trainer); });
  }
  if (!from_best) {
    try {
      restore(last, trainer);
    } catch (const FileError& error) {
      if (!best_info) throw;
      throw_with_way(error, last, best, fmt::format("from '{}'", best.string()),
                     [&] { restore(best, trainer); });
    }
  }
  if (best_info) {
    trainer.set_best(best_info->best);
  } else if (trainer.best() && trainer.best()->step == trainer.steps()) {
    save_checkpoint(best, trainer);
  } else if (trainer.best()) {
    note(fmt::format("'{}' is missing: the best model so far, of step {}, is lost", best.string(),
                     trainer.best()->step));
    trainer.set_best(std::nullopt);
  }
  if (!from_best) return;
  fmt::print("'{}' is {}: going on from '{}'\n", printable(last.string()),
             last_info ? "of an earlier step" : "missing", printable(best.string()));
  save_checkpoint(last, trainer);
}

}  // namespace orthornn::program
