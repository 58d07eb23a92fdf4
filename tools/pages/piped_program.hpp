#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orthornn::program {

/// The exit code and the output of a program.
struct PipedResult {
  int exit_code;  // -1 when a signal ended it
  std::string output;
  std::string errors;
};

/// Runs `command` with `input` on its standard input and waits for its end. Its first word is searched in
/// PATH. Input and output go through pipes; no file is created. Returns nullopt if there is no such program.
/// Throws Error if the system has no process or pipe left.
std::optional<PipedResult> run_piped(const std::vector<std::string>& command, std::string_view input);

}  // namespace orthornn::program
