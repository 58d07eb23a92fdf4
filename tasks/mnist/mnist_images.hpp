#pragma once

#include <filesystem>
#include <string>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Reads the images [count, rows, columns] and labels [count] of a set, "train" or "t10k", from a folder with
/// the four MNIST files. Throws FileError, which names the task, for a file that is missing or damaged.
void read_mnist_images(const char* task, const std::filesystem::path& folder, const char* set,
                       Tensor<std::uint8_t>& pixels, Tensor<std::uint8_t>& labels);

/// "60000 training images, CRC-32 1a2b3c4d; 10000 test images, CRC-32 5e6f7a8b", of pixels and labels.
std::string mnist_checksum(const Tensor<std::uint8_t>& pixels, const Tensor<std::uint8_t>& labels,
                           const Tensor<std::uint8_t>& test_pixels, const Tensor<std::uint8_t>& test_labels);

}  // namespace orthornn
