#pragma once

#include <string>

namespace orthornn::program {

/// What to do where gnuplot is missing.
inline constexpr const char* gnuplot_advice = "gnuplot is not installed (apt-get install gnuplot-nox)";

bool gnuplot_is_installed();

/// What gnuplot writes to standard output for a script. Throws Error when it is missing or refuses.
std::string run_gnuplot(const std::string& script);

}  // namespace orthornn::program
