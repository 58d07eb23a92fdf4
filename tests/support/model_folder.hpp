#pragma once

#include <filesystem>

#include "support/temporary_folder.hpp"

namespace orthornn::testing {

/// A temporary folder, and the path in it of a model file that a test may write.
struct ModelFolder : TemporaryFolder {
  std::filesystem::path file = path() / "model.h5";
};

}  // namespace orthornn::testing
