#include "commands/event_log.hpp"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <vector>

#include "io/event_records.hpp"
#include "support/files.hpp"

namespace orthornn::program {
namespace {

// What TensorBoard looks for in a name, and what tells our files from those of others.
constexpr const char *name_start = "events.out.tfevents.", *name_end = ".orthornn";

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The first name of this second that is free. TensorBoard reads files in the order of their names.
fs::path new_file(const fs::path& folder) {
  const auto seconds = static_cast<std::int64_t>(now());
  for (int number = 0;; ++number) {
    fs::path file = folder / fmt::format("{}{:010}.{:03}{}", name_start, seconds, number, name_end);
    if (!is_present(file)) return file;
  }
}

void add_evaluation(std::vector<EventScalar>& scalars, const Evaluation& evaluation) {
  scalars.push_back({"validation/loss", static_cast<float>(evaluation.loss)});
  for (const auto& [metric, value] : evaluation.metrics)
    scalars.push_back({"validation/" + metric.name, static_cast<float>(value)});
}

}  // namespace

void remove_event_files(const fs::path& folder) {
  std::error_code status;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, status), end; !status && entry != end; entry.increment(status)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(name_start) && name.ends_with(name_end)) found.push_back(entry->path());
  }
  for (const fs::path& file : found) fs::remove(file, status);
}

EventLog::EventLog(const fs::path& folder, std::int64_t steps) : file_(new_file(folder)) {
  const double begin = now();
  head_ = version_record(begin) + start_record(begin, steps + 1);
  file_.start(head_);
}

void EventLog::add(const LoggedStep& logged) {
  std::vector<EventScalar> scalars;
  const auto add = [&](const char* tag, const std::optional<double>& value) {
    if (value) scalars.push_back({tag, static_cast<float>(*value)});
  };
  add("train/loss", logged.step.loss());
  add("train/gradient_norm", logged.step.gradient_norm());
  add("train/learning_rate", logged.learning_rate);
  add("train/orthogonality_error", logged.orthogonality_error);
  add("train/reflection_norm", logged.reflection_norm);
  if (logged.evaluation) add_evaluation(scalars, *logged.evaluation);
  new_records_ += scalars_record(now(), logged.step.step, scalars);
}

void EventLog::add(std::int64_t step, const Evaluation& evaluation) {
  std::vector<EventScalar> scalars;
  add_evaluation(scalars, evaluation);
  new_records_ += scalars_record(now(), step, scalars);
}

void EventLog::write() {
  file_.append(new_records_, [this] { return head_; });
  new_records_.clear();
}

}  // namespace orthornn::program
