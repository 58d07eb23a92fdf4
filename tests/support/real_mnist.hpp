#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "test_paths.hpp"

namespace orthornn::testing {

/// Folder of the real MNIST files; empty where there is none.
inline std::filesystem::path real_mnist() {
  const std::filesystem::path source = ORTHORNN_SOURCE_DIR;
  std::vector<std::filesystem::path> folders{source / "data/mnist", source / "../shared/data/mnist"};
  if (const char* named = std::getenv("ORTHORNN_MNIST_DIR")) folders = {named};
  const auto found =
      std::ranges::find_if(folders, [](const auto& path) { return std::filesystem::exists(path); });
  return found == folders.end() ? std::filesystem::path() : *found;
}

}  // namespace orthornn::testing
