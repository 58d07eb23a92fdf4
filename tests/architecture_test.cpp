// The direction of includes: core -> linalg -> orthogonal -> cells -> layers -> nn -> tasks -> optim -> train
// -> tools. A later stage may include an earlier one, never the reverse; io sees only core, and core sees
// nothing.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace orthornn::testing {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> stages = {"core", "linalg", "orthogonal", "cells", "layers",
                                         "nn",   "tasks",  "optim",      "train", "tools"};

std::optional<std::size_t> stage_number(const std::string& name) {
  const auto found = std::find(stages.begin(), stages.end(), name);
  if (found == stages.end()) return std::nullopt;
  return static_cast<std::size_t>(found - stages.begin());
}

/// The first folder of a path that is a stage or io, without "include", "src", "cuda" and "orthornn" before
/// it; "" for what lies in none ("orthornn/orthornn.hpp", a neighbour's name).
std::string stage_of(const fs::path& path) {
  fs::path folders = path.parent_path();
  for (const fs::path& part : folders) {
    const std::string name = part.string();
    if (name == "include" || name == "src" || name == "cuda" || name == "orthornn") continue;
    return name == "io" || stage_number(name) ? name : "";
  }
  return "";
}

bool may_include(const std::string& from, const std::string& to) {
  if (from == to) return true;
  if (from == "io") return to == "core";
  if (to == "io") return from != "core";
  return *stage_number(to) < *stage_number(from);
}

/// One line for each include that goes against the direction. `sources` counts the files that were looked at.
std::vector<std::string> offending_includes(const fs::path& root, int& sources) {
  static const std::regex include(R"re(^\s*#\s*include\s*[<"]([^>"]+)[>"])re");
  std::vector<std::string> offences;
  for (const char* top : {"include", "src", "cuda", "tasks", "tools"}) {
    if (!fs::exists(root / top)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".hpp" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      ++sources;
      const fs::path file = entry.path().lexically_relative(root);
      const std::string from = stage_of(file);
      if (from.empty()) continue;  // the header that includes everything
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        const std::string target = match[1];
        const std::string to = stage_of(target);
        // The header that includes everything is for users, and for the program.
        const bool everything = target == "orthornn/orthornn.hpp" && from != "tools";
        if (everything || (!to.empty() && !may_include(from, to))) {
          offences.push_back(file.string() + ":" + std::to_string(number) + ": " + from + " includes " +
                             target);
        }
      }
    }
  }
  return offences;
}

TEST_CASE("includes go from later stages to earlier ones", "[architecture]") {
  int sources = 0;
  const std::vector<std::string> offences = offending_includes(ORTHORNN_SOURCE_DIR, sources);
  for (const std::string& offence : offences) FAIL_CHECK(offence);
  // It would find nothing in the wrong folder either.
  CHECK(sources > 40);
}

TEST_CASE("an include against the direction is named", "[architecture]") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& content) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
  };
  write("include/orthornn/core/tensor.hpp", "#include <vector>\n#include \"orthornn/linalg/gemm.hpp\"\n");
  write("src/io/hdf5.cpp",
        "#include \"io/handle.hpp\"\n#include \"orthornn/core/tensor.hpp\"\n#include "
        "<orthornn/nn/model.hpp>\n");
  write("src/cells/rollout.cpp", "#include \"linalg/gemm.hpp\"\n  # include \"optim/optimizer.hpp\"\n");
  write("tasks/adding/task.cpp", "#include \"orthornn/nn/batch.hpp\"\n#include \"orthornn/orthornn.hpp\"\n");
  write("tools/main.cpp", "#include \"orthornn/orthornn.hpp\"\n#include \"orthornn/io/hdf5.hpp\"\n");
  int sources = 0;
  std::vector<std::string> offences = offending_includes(root.path(), sources);
  std::sort(offences.begin(), offences.end());
  CHECK(sources == 5);
  CHECK(offences ==
        std::vector<std::string>{"include/orthornn/core/tensor.hpp:2: core includes orthornn/linalg/gemm.hpp",
                                 "src/cells/rollout.cpp:2: cells includes optim/optimizer.hpp",
                                 "src/io/hdf5.cpp:3: io includes orthornn/nn/model.hpp",
                                 "tasks/adding/task.cpp:2: tasks includes orthornn/orthornn.hpp"});
}

}  // namespace
}  // namespace orthornn::testing
