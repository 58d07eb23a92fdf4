#include "pages/gnuplot.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "orthornn/core/error.hpp"
#include "pages/piped_program.hpp"

namespace orthornn::program {

bool gnuplot_is_installed() { return run_piped({"gnuplot", "--version"}, "").has_value(); }

std::string run_gnuplot(const std::string& script) {
  // Without the user's settings, and without GNUTERM: gnuplot does not start with a terminal that it lacks.
  unsetenv("GNUTERM");
  std::optional<PipedResult> result = run_piped({"gnuplot", "-d"}, script);
  if (!result) throw Error(fmt::format("no plot can be drawn: {}", gnuplot_advice));
  if (result->exit_code != 0) {
    throw Error(fmt::format(
        "gnuplot could not draw a plot ({}): {}",
        result->exit_code < 0 ? "it was killed" : fmt::format("exit status {}", result->exit_code),
        result->errors.empty() ? "it does not say why" : result->errors.substr(0, 200)));
  }
  return std::move(result->output);
}

}  // namespace orthornn::program
