#pragma once

#include <filesystem>
#include <string>

#include "commands/training_log.hpp"

namespace orthornn::program {

/// Removes the event files of a training that a new one replaces. Others' files stay.
void remove_event_files(const std::filesystem::path& folder);

/// The numbers of metrics.csv as scalars of TensorBoard. Each start of a training has an event file of its
/// own in the run directory.
class EventLog {
 public:
  /// Makes the file of a training that has taken so many steps. What earlier files have after them does not
  /// count. Throws FileError.
  EventLog(const std::filesystem::path& folder, std::int64_t steps);
  /// A record for `write`.
  void add(const LoggedStep& logged);
  /// For `write`, an evaluation after that step whose other numbers an earlier file has.
  void add(std::int64_t step, const Evaluation& evaluation);
  /// Writes what was added. Throws FileError where not all of it could be written; the next call tries again.
  void write();
  const std::filesystem::path& file() const { return file_.path(); }

 private:
  AppendedFile file_;
  /// Records that begin the file, and those that are not written yet.
  std::string head_, new_records_;
};

}  // namespace orthornn::program
