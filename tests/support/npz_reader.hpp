#pragma once
// Reads whole arrays of .npz files, for the tests of what is written.

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/npz_file.hpp"

namespace orthornn::testing {

/// An array, whose numbers are `integers` if they are such, and else `reals`.
struct NumpyNumbers {
  Shape shape = {};
  bool is_integer = false;
  Tensor<double> reals = {};
  Tensor<std::int64_t> integers = {};
};

template <class T>
void read_numpy(const std::filesystem::path& file, const std::string& name, const Shape& shape,
                Tensor<T>& to) {
  std::vector<T> all;  // grows with the bytes that are there, whatever the shape claims
  read_npz_in_pieces<T>(file, name,
                        [&](std::span<const T> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
  to.reserve(shape);
  std::ranges::copy(all, to.begin());
}

/// The arrays of these names that the file has. Throws FileError.
inline std::map<std::string, NumpyNumbers> read_npz(const std::filesystem::path& file,
                                                    const std::vector<std::string>& names) {
  std::map<std::string, NumpyNumbers> arrays;
  for (const auto& [name, found] : list_npz(file, names)) {
    NumpyNumbers& array = arrays[name];
    array.shape = found.shape;
    array.is_integer = found.is_integer;
    if (array.is_integer)
      read_numpy(file, name, found.shape, array.integers);
    else
      read_numpy(file, name, found.shape, array.reals);
  }
  return arrays;
}

}  // namespace orthornn::testing
