#pragma once

#include <cstdint>
#include <filesystem>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// Reads an IDX file of unsigned bytes, gzipped or not: the format of MNIST (yann.lecun.com/exdb/mnist), a
/// magic number 00 00 08 RANK, one big-endian 32-bit size for each dimension, the bytes in C order.
///
/// Throws FileError when the file cannot be read, is not of that kind, has a dimension of 0, or is shorter or
/// longer than its sizes say. `rank` is 1 to 4.
Tensor<std::uint8_t> read_idx(const std::filesystem::path& path, int rank);

}  // namespace orthornn
