#include "commands/free_memory.hpp"

#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "orthornn/core/error.hpp"

namespace orthornn::program {
namespace {

/// Bytes that the system says are free for programs; nothing where it does not say so.
std::optional<double> available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    double kilobytes = 0;
    if (file >> kilobytes && key == "MemAvailable:") return 1024 * kilobytes;
    std::getline(file, unit);
  }
  return std::nullopt;
}

}  // namespace

void check_free_memory(const std::string& work, double bytes, const char* advice) {
  const std::optional<double> available = available_bytes();
  if (!available || bytes <= *available) return;
  throw Error(fmt::format("{} about {:.3g} GB, and {:.3g} GB of memory are free; {}", work, bytes * 1e-9,
                          *available * 1e-9, advice));
}

}  // namespace orthornn::program
