#pragma once
// Python with numpy and h5py, for tests of files that it reads or writes.

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/catch.hpp"
#include "support/child_process.hpp"

namespace orthornn::testing {

/// A Python with numpy and h5py; warns where there is none.
inline std::optional<std::string> python() {
  for (const char* name : {"python3", "/usr/bin/python3"}) {
    const std::string tried = fmt::format("{} -c 'import numpy, h5py' >/dev/null 2>&1", name);
    if (std::system(tried.c_str()) == 0) return name;
  }
  WARN("skipped: no python3 with numpy and h5py (packages python3-numpy and python3-h5py)");
  return std::nullopt;
}

struct ShellOutput {
  int status;
  std::string text;
};

inline ShellOutput shell(const std::string& command, const std::filesystem::path& scratch) {
  const int status = std::system(fmt::format("{} >'{}' 2>&1", command, scratch.string()).c_str());
  return {WEXITSTATUS(status), content(scratch)};
}

}  // namespace orthornn::testing
