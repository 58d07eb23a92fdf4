#include "pages/gnuplot.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "orthornn/core/error.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

/// Removed in the end.
struct ScratchFolder {
  ScratchFolder() : path((fs::temp_directory_path() / "orthornn-XXXXXX").string()) {
    if (mkdtemp(path.data()) == nullptr)
      throw Error(fmt::format("no plot can be drawn in '{}': {}", path, std::strerror(errno)));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string content(const char* name) const {
    std::ifstream stream(fs::path(path) / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string path;
};

}  // namespace

bool gnuplot_is_installed() { return std::system("command -v gnuplot >/dev/null") == 0; }

std::string run_gnuplot(const std::string& script) {
  if (!gnuplot_is_installed()) throw Error(fmt::format("no plot can be drawn: {}", gnuplot_advice));
  const ScratchFolder folder;
  if (!(std::ofstream(fs::path(folder.path) / "script") << script << std::flush))
    throw Error(fmt::format("no plot can be drawn: '{}' cannot be written", folder.path));
  // A variable of the shell needs no quoting. Without the user's settings, and without GNUTERM: gnuplot does
  // not start with a terminal that it lacks.
  setenv("ORTHORNN_PLOT", folder.path.c_str(), 1);
  const int status = std::system(
      "unset GNUTERM; exec gnuplot -d \"$ORTHORNN_PLOT/script\" >\"$ORTHORNN_PLOT/svg\" "
      "2>\"$ORTHORNN_PLOT/errors\"");
  if (status != 0) {
    const std::string errors = folder.content("errors");
    throw Error(
        fmt::format("gnuplot could not draw a plot ({}): {}",
                    WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status)) : "it was killed",
                    errors.empty() ? "it does not say why" : errors.substr(0, 200)));
  }
  return folder.content("svg");
}

}  // namespace orthornn::program
