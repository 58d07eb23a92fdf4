#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orthornn::program {

/// How a program ended and what it said.
struct PipedResult {
  int exit_code;  // -1 when a signal ended it
  std::string output;
  std::string errors;
};

/// Runs `command`, whose first word is looked for in PATH, with `input` on its standard input, and waits for
/// its end. All that goes in and comes out goes through pipes, no file is made. nullopt when there is no such
/// program. Throws Error when the system has no process or pipe left.
std::optional<PipedResult> run_piped(const std::vector<std::string>& command, std::string_view input);

}  // namespace orthornn::program
