#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace orthornn::fuzz {

/// A fuzz target as replay.cpp calls it: the name of its corpus, and its LLVMFuzzerTestOneInput.
struct Target {
  std::string name;
  int (*test)(const std::uint8_t* data, std::size_t size);
};

/// All targets; CMake writes this table.
const std::vector<Target>& targets();

}  // namespace orthornn::fuzz
