#include "orthornn/version.hpp"

namespace orthornn {

std::string version() { return ORTHORNN_VERSION; }

}  // namespace orthornn
