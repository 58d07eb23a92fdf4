#pragma once

#include <string>

namespace orthornn::emulator {

/// As the source names the function, if the program's symbols say so.
std::string kernel_name(const void* kernel);

}  // namespace orthornn::emulator
