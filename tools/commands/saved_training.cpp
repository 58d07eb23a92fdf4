#include "commands/saved_training.hpp"

#include <fmt/format.h>

#include <optional>

#include "commands/program.hpp"
#include "orthornn/core/error.hpp"
#include "orthornn/train/model_file.hpp"

namespace orthornn::program {
namespace {

/// Throws FileError unless the file is the best state of this training, as `train` saves it.
ModelFileInfo info_of_best(const std::filesystem::path& file, const Trainer& trainer) {
  try {
    ModelFileInfo info = check_resumable(file, trainer);
    if (!info.best || info.best->step != *info.steps) {
      throw FileError(fmt::format(
          "{} is of step {}, and its best result is {}; expected the best result itself", file.string(),
          *info.steps, info.best ? fmt::format("of step {}", info.best->step) : "missing"));
    }
    return info;
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}. Rename '{}' to go on without it", error.what(), file.string()));
  }
}

/// What `read(last)` returns. Where that file alone is refused, the error says how to go on without it: to
/// rename it, as it may be sound and only locked or unreadable for now.
template <class Read>
ModelFileInfo info_of_last(const std::filesystem::path& last, const std::filesystem::path& best,
                           const Read& read) {
  try {
    return read(last);
  } catch (const FileError& error) {
    const auto is_sound = [&](const std::filesystem::path& file) {
      try {
        read(file);
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    if (!is_sound(best)) throw;
    throw FileError(fmt::format("{}. Rename '{}' to go on from '{}', the best model so far", error.what(),
                                last.string(), best.string()));
  }
}

/// Restores the trainer. Where that file is refused and the other one is not, the error says how to go on
/// from that one.
void restore_or_name_way(const std::filesystem::path& file, const std::filesystem::path& other,
                         bool other_is_sound, Trainer& trainer) {
  try {
    restore(file, trainer);
  } catch (const FileError& error) {
    if (!other_is_sound) throw;
    throw FileError(
        fmt::format("{}. Rename '{}' to go on from '{}'", error.what(), file.string(), other.string()));
  }
}

/// Throws FileError where numbers of the best model are damaged: they are read when the training has ended.
/// The trainer's model gets these numbers, which `restore` overwrites.
void check_best_numbers(const std::filesystem::path& file, Trainer& trainer) {
  try {
    load_parameters(file, trainer.model());
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}. Rename '{}' to go on without it", error.what(), file.string()));
  }
}

}  // namespace

std::vector<TaskPart> SavedTraining::parts_of(const Task& task) const {
  const std::filesystem::path& file = has_last() ? last : best;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, ignored))) return {};
  ModelFileInfo info =
      info_of_last(file, best, [](const std::filesystem::path& found) { return read_model_info(found); });
  if (info.task_config != task.config() || info.seed != task.seed()) return {};
  return std::move(info.parts);
}

void SavedTraining::resume(Trainer& trainer) const {
  // The last state first: where settings do not fit, both files are refused for the same reason.
  std::optional<ModelFileInfo> last_info, best_info;
  if (has_last()) {
    last_info = info_of_last(
        last, best, [&](const std::filesystem::path& file) { return check_resumable(file, trainer); });
  }
  if (has_best()) best_info = info_of_best(best, trainer);
  // The best state is saved first, so a run that was killed between the two saves goes on from there.
  const bool from_best = best_info && (!last_info || *best_info->steps > *last_info->steps);
  if (best_info && !from_best) check_best_numbers(best, trainer);
  restore_or_name_way(from_best ? best : last, from_best ? last : best, last_info && best_info, trainer);
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
