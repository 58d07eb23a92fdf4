#pragma once

#include <string>

namespace orthornn {

/// Version of the library, "MAJOR.MINOR.PATCH".
std::string version();

}  // namespace orthornn
