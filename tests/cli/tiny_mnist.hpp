#pragma once

#include <filesystem>

#include "cli/run_program.hpp"
#include "support/idx_writer.hpp"

namespace orthornn::testing {

/// Ten training and six test images of 4 x 3 pixels, half of the files gzipped.
inline void write_tiny_mnist(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto bytes = [](std::uint32_t count, unsigned factor, unsigned limit) {
    Bytes result(count);
    for (std::uint32_t i = 0; i < count; ++i) result[i] = static_cast<std::uint8_t>(i * factor % limit);
    return result;
  };
  write_plain(folder / "train-images-idx3-ubyte", idx_bytes({10, 4, 3}, bytes(120, 37, 251)));
  write_gzipped(folder / "train-labels-idx1-ubyte.gz", idx_bytes({10}, bytes(10, 3, 10)));
  write_gzipped(folder / "t10k-images-idx3-ubyte.gz", idx_bytes({6, 4, 3}, bytes(72, 41, 253)));
  write_plain(folder / "t10k-labels-idx1-ubyte", idx_bytes({6}, bytes(6, 7, 10)));
}

inline Arguments train_mnist(const std::filesystem::path& data, const std::filesystem::path& out,
                             const Arguments& more = {}) {
  return Arguments{"train", "mnist",   "--data", data.string(), "--hidden",
                   "8",     "--batch", "4",      "--out",       out.string()} +
         more;
}

}  // namespace orthornn::testing
