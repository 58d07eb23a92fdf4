#include "core/free_memory.hpp"

#include <fstream>
#include <string>

namespace orthornn {

std::optional<double> free_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    double kilobytes = 0;
    if (file >> kilobytes && key == "MemAvailable:") return 1024 * kilobytes;
    std::getline(file, unit);
  }
  return std::nullopt;
}

}  // namespace orthornn
