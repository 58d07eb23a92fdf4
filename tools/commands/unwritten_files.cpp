#include "commands/unwritten_files.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orthornn::program {
namespace {

/// Between two tries of files that are not due: a try writes whole models.
constexpr std::chrono::seconds pause{10};

using Clock = std::chrono::steady_clock;

}  // namespace

void UnwrittenFiles::write(const std::filesystem::path& file, std::function<void()> write,
                           const std::function<void()>& before_note) {
  const auto found = std::ranges::find(files_, file, &Unwritten::file);
  try {
    write();
    if (found != files_.end()) files_.erase(found);
  } catch (const FileError& error) {
    if (found == files_.end()) {
      files_.push_back({file, std::move(write), error.what()});
    } else {
      *found = {file, std::move(write), error.what()};
    }
    if (!noted_) {
      if (before_note) before_note();
      note(fmt::format("{}. The training goes on and tries again", error.what()));
      tried_ = Clock::now();
    }
    noted_ = true;
    return;
  }
  if (!files_.empty() && Clock::now() - tried_ > pause) try_again(before_note);
  note_if_done(before_note);
}

void UnwrittenFiles::try_again(const std::function<void()>& before_note) {
  for (Unwritten& unwritten : files_) {
    try {
      unwritten.write();
      unwritten.why.clear();
    } catch (const FileError& error) {
      unwritten.why = error.what();
    }
  }
  std::erase_if(files_, [](const Unwritten& unwritten) { return unwritten.why.empty(); });
  tried_ = Clock::now();
  note_if_done(before_note);
}

void UnwrittenFiles::note_if_done(const std::function<void()>& before_note) {
  if (!noted_ || !files_.empty()) return;
  if (before_note) before_note();
  note("all that could not be written is written now");
  noted_ = false;
}

bool UnwrittenFiles::contain(const std::filesystem::path& file) const {
  return std::ranges::find(files_, file, &Unwritten::file) != files_.end();
}

std::string UnwrittenFiles::text(const std::filesystem::path& folder) const {
  std::string names, why;
  for (const Unwritten& unwritten : files_) {
    const std::filesystem::path name =
        folder.empty() ? unwritten.file : unwritten.file.lexically_relative(folder);
    if (name.empty() || *name.begin() == "..") continue;
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name.string());
    if (why.empty()) why = unwritten.why;
  }
  return names.empty() ? "" : fmt::format("not written: {}; {}", names, why);
}

}  // namespace orthornn::program
