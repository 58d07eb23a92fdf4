#include "pages/gnuplot.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "orthornn/core/error.hpp"
#include "pages/scratch_folder.hpp"

namespace orthornn::program {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

bool gnuplot_is_installed() { return std::system("command -v gnuplot >/dev/null") == 0; }

std::string run_gnuplot(const std::string& script) {
  if (!gnuplot_is_installed()) throw Error(fmt::format("no plot can be drawn: {}", gnuplot_advice));
  const ScratchFolder folder("no plot can be drawn");
  const fs::path path = folder.path();
  if (!(std::ofstream(path / "script") << script << std::flush))
    throw Error(fmt::format("no plot can be drawn: '{}' cannot be written", path.string()));
  // A variable of the shell needs no quoting. Without the user's settings, and without GNUTERM: gnuplot does
  // not start with a terminal that it lacks.
  setenv("ORTHORNN_PLOT", path.c_str(), 1);
  const int status = std::system(
      "unset GNUTERM; exec gnuplot -d \"$ORTHORNN_PLOT/script\" >\"$ORTHORNN_PLOT/svg\" "
      "2>\"$ORTHORNN_PLOT/errors\"");
  if (status != 0) {
    const std::string errors = content_of(path / "errors");
    throw Error(
        fmt::format("gnuplot could not draw a plot ({}): {}",
                    WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status)) : "it was killed",
                    errors.empty() ? "it does not say why" : errors.substr(0, 200)));
  }
  return content_of(path / "svg");
}

}  // namespace orthornn::program
