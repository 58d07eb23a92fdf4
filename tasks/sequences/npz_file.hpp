#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "orthornn/core/tensor.hpp"

namespace orthornn {

/// An array of a NumPy file, whose numbers are double where they are no integers.
struct NumpyArray {
  Shape shape = {};
  bool is_integer = false;
  Tensor<double> reals = {};           ///< Of `shape`; empty for integers.
  Tensor<std::int64_t> integers = {};  ///< Of `shape`; empty for reals.
};

/// Reads all arrays of an .npz file, by their names without ".npy". It accepts integers of 8 to 64 bits,
/// booleans, and floating-point numbers of 32 and 64 bits, in either byte order and in C order, stored or
/// deflated. Throws FileError for another archive or array; Python objects (pickles) are never read. Memory
/// is taken for as many bytes as the archive really has.
std::map<std::string, NumpyArray> read_npz(const std::filesystem::path& file);

/// Shapes and kinds of all arrays of an .npz file, by their names without ".npy"; their numbers are not read.
/// Throws as `read_npz`.
std::map<std::string, NumpyArray> list_npz(const std::filesystem::path& file);

/// Reads the array of that name in pieces, as T = float or int64: gives `take` the numbers in their order,
/// each piece until `take` returns. The array has numbers of T's kind. Throws as `read_npz`, and what `take`
/// throws.
template <class T>
void read_npz_in_pieces(const std::filesystem::path& file, const std::string& name,
                        const std::function<void(std::span<const T>)>& take);

/// Reads an array from the bytes of an .npy file; `name` is for messages. Throws FileError.
NumpyArray parse_npy(const std::string& name, const std::vector<std::uint8_t>& bytes);

}  // namespace orthornn
