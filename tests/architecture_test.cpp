// What files may include. That a stage includes only itself and earlier stages is what the compiler checks
// (cmake/stages.cmake). It sees neither of these: public headers, which users compile without src and cuda;
// files of cuda in a build without CUDA; and paths with "..", which lead out of the folders that a stage has.
// Nor does it see that the pages of the program know nothing of its commands.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "test_paths.hpp"

namespace orthornn::testing {
namespace {

namespace fs = std::filesystem;

/// What quoted includes of a folder may begin with; those of other folders with anything.
const std::map<std::string, std::vector<std::string>> beginnings = {
    {"include/", {"orthornn/"}},
    {"cuda/", {"orthornn/", "cuda/", "pointwise/"}},
    {"src/pointwise/", {"orthornn/core/shape.hpp", "orthornn/scalar/", "pointwise/"}},
    {"tools/pages/", {"pages/", "support/", "orthornn/", "core/"}},
    {"tools/support/", {"support/", "orthornn/", "core/"}}};

bool may_include(const std::string& file, const std::string& target) {
  if (target.starts_with("../") || target.find("/../") != std::string::npos) return false;
  const auto is_begun_by = [](const std::string& path) {
    return [&](const std::string& beginning) { return path.starts_with(beginning); };
  };
  return std::ranges::all_of(beginnings, [&](const auto& rule) {
    return !file.starts_with(rule.first) || std::ranges::any_of(rule.second, is_begun_by(target));
  });
}

/// One line for each include that is not allowed. `sources` counts the files that were looked at.
std::vector<std::string> offending_includes(const fs::path& root, int& sources) {
  static const std::regex include(R"re(^\s*#\s*include\s*"([^"]+)")re");
  std::vector<std::string> offences;
  for (const char* folder : {"include", "src", "cuda", "tasks", "tools"}) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".hpp" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
      ++sources;
      const std::string file = entry.path().lexically_relative(root).string();
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        std::smatch match;
        if (!std::regex_search(line, match, include) || may_include(file, match[1])) continue;
        offences.push_back(file + ":" + std::to_string(number) + ": " + match[1].str());
      }
    }
  }
  return offences;
}

TEST_CASE("public headers and files of cuda include what they may", "[architecture]") {
  int sources = 0;
  const std::vector<std::string> offences = offending_includes(ORTHORNN_SOURCE_DIR, sources);
  for (const std::string& offence : offences) FAIL_CHECK(offence);
  // It would find nothing in the wrong folder either.
  CHECK(sources > 40);
}

TEST_CASE("an include that is not allowed is named", "[architecture]") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& content) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
  };
  write("include/orthornn/core/tensor.hpp", "#include <vector>\n#include \"core/parallel.hpp\"\n");
  write("include/orthornn/core/shape.hpp", "#include \"cuda/core/device.hpp\"\n");
  write("cuda/rollouts/rollout.cu",
        "#include \"orthornn/core/shape.hpp\"\n  # include \"src/core/x.hpp\"\n#include "
        "\"cuda/core/launch.hpp\"\n");
  write("cuda/rollouts/rollout.hpp", "#include \"core/parallel.hpp\"\n");
  write("src/rollouts/rollout.cpp", "#include \"../optim/optimizer.hpp\"\n#include \"rollouts/x.hpp\"\n");
  write("tasks/adding/task.cpp", "#include \"tasks/../src/core/x.hpp\"\n");
  write("tools/main.cpp", "#include \"orthornn/orthornn.hpp\"\n");
  write("tools/pages/page.cpp", "#include \"pages/page.hpp\"\n#include \"commands/program.hpp\"\n");
  int sources = 0;
  std::vector<std::string> offences = offending_includes(root.path(), sources);
  std::ranges::sort(offences);
  CHECK(sources == 8);
  CHECK(offences == std::vector<std::string>{"cuda/rollouts/rollout.cu:2: src/core/x.hpp",
                                             "cuda/rollouts/rollout.hpp:1: core/parallel.hpp",
                                             "include/orthornn/core/shape.hpp:1: cuda/core/device.hpp",
                                             "include/orthornn/core/tensor.hpp:2: core/parallel.hpp",
                                             "src/rollouts/rollout.cpp:1: ../optim/optimizer.hpp",
                                             "tasks/adding/task.cpp:1: tasks/../src/core/x.hpp",
                                             "tools/pages/page.cpp:2: commands/program.hpp"});
}

}  // namespace
}  // namespace orthornn::testing
