#pragma once

#include <string>

namespace orthornn::program {

/// Linux gives memory that it does not have, and ends a program that uses it. So what work takes on the CPU
/// is estimated before. Throws Error, which begins with `work`, where these bytes are more than are free.
void check_free_memory(const std::string& work, double bytes, const char* advice);

}  // namespace orthornn::program
