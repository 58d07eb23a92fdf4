#pragma once

#include <string>

namespace orthornn {

/// "MAJOR.MINOR.PATCH"
std::string version();

}  // namespace orthornn
