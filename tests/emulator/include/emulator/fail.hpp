#pragma once

#include <source_location>
#include <string>

namespace orthornn::emulator {

/// Ends the process with a message that names the running kernel, block and thread, if any: for mistakes that
/// CUDA leaves undefined.
[[noreturn]] void fail(const std::string& message);
[[noreturn]] void fail(const std::string& message, std::source_location where);

std::string to_string(std::source_location where);

/// Whether both are on the same line.
bool same_place(std::source_location a, std::source_location b);

}  // namespace orthornn::emulator
