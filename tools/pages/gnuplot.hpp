#pragma once

#include <string>

namespace orthornn::program {

/// Advice for an error message if gnuplot is missing.
inline constexpr const char* gnuplot_advice = "gnuplot is not installed (apt-get install gnuplot-nox)";

bool gnuplot_is_installed();

/// The standard output of gnuplot for a script. Throws Error if gnuplot is missing or fails, and
/// Interrupted for a signal that asks for a stop.
std::string run_gnuplot(const std::string& script);

}  // namespace orthornn::program
